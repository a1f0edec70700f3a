#include "tessera/planner/variants/fixes.hpp"

#include <algorithm>
#include <optional>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/families/families.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/memory/memory.hpp"
#include "tessera/plan/step_seconds.hpp"
#include "tessera/spec/problems.hpp"

namespace tessera::planner {
namespace {

// One thing to change, of a kind: two of a kind exclude each other.
struct Change {
  std::string kind;
  std::vector<std::string> words;
  spec::Layout layout;  // of the run with this change alone
};

// What differs from `from` in `change`, done to `layout`.
void apply(const spec::Layout& from, const Change& change, spec::Layout& layout) {
  const spec::Layout& to = change.layout;
  const auto take = [&](auto member) {
    if (to.*member != from.*member) layout.*member = to.*member;
  };
  take(&spec::Layout::zero), take(&spec::Layout::dp_replicate), take(&spec::Layout::dp_shard);
  take(&spec::Layout::recompute), take(&spec::Layout::micro_batch), take(&spec::Layout::reduce_every);
  take(&spec::Layout::offload), take(&spec::Layout::schedule);
}

std::vector<Change> changes_of(const spec::Run& run) {
  const spec::Layout& now = run.layout;
  std::vector<Change> out;
  const auto add = [&](const char* kind, std::vector<std::string> words, auto edit) {
    Change change{kind, std::move(words), now};
    edit(change.layout);
    out.push_back(std::move(change));
  };
  for (std::int64_t zero = now.zero + 1; now.dp() > 1 && zero <= 3; ++zero) {
    std::vector<std::string> words = {cat("layout.zero=", zero)};
    const bool is_whole = now.dp_shard == 1;
    if (is_whole) {
      words.push_back(cat("layout.dp_shard=", now.dp()));
      words.push_back("layout.dp_replicate=1");
    }
    add("zero", words, [&](spec::Layout& layout) {
      layout.zero = zero;
      if (is_whole) layout.dp_shard = now.dp(), layout.dp_replicate = 1;
    });
  }
  if (now.zero >= 2 && now.reduce_every != 1)
    add("reduce", {"layout.reduce_every=1"}, [](spec::Layout& layout) { layout.reduce_every = 1; });
  if (now.recompute == spec::Recompute::none)
    add("recompute", {"layout.recompute=selective"},
        [](spec::Layout& layout) { layout.recompute = spec::Recompute::selective; });
  if (now.recompute != spec::Recompute::full)
    add("recompute", {"layout.recompute=full"},
        [](spec::Layout& layout) { layout.recompute = spec::Recompute::full; });
  for (std::int64_t samples = now.micro_batch / 2; samples >= 1; samples /= 2)
    add("micro", {cat("layout.micro_batch=", samples)},
        [&](spec::Layout& layout) { layout.micro_batch = samples; });
  for (const char* what : {"optimizer", "optimizer,parameters"})
    if (now.offload.empty())
      add("offload", {cat("layout.offload=", what)}, [&](spec::Layout& layout) { layout.offload = what; });
  const bool holds_all = spec::entry(now.schedule).traits.holds_all;
  if (now.pp > 1 && holds_all && now.stages.empty() && now.virtual_stages == 0 && now.max_activations == 0)
    add("schedule", {"layout.schedule=1f1b"},
        [](spec::Layout& layout) { layout.schedule = spec::Layout().schedule; });
  return out;
}

}  // namespace

std::vector<Fix> fixes(const spec::Run& run, const program::Program& program, std::int64_t limit_bytes) {
  const auto changes = changes_of(run);
  const double now = plan::step_seconds(program, plan::rates_of(run.cluster));
  std::vector<Fix> out;
  const auto attempt = [&](std::vector<const Change*> chosen) {
    spec::Run changed = run;
    changed.layout.memory_limit_mib = 0;
    Fix fix;
    for (const Change* change : chosen) {
      apply(run.layout, *change, changed.layout);
      fix.changes.insert(fix.changes.end(), change->words.begin(), change->words.end());
    }
    if (!spec::problems(changed, spec::any_build()).empty()) return;
    const plan::StepRequest request = families::step_request(changed);
    const program::Program compiled = plan::compile(request);
    fix.peak_bytes = plan::peak_bytes(compiled, plan::device_plan(changed.cluster.transport, compiled));
    if (fix.peak_bytes > limit_bytes) return;
    fix.slowdown = plan::step_seconds(compiled, request.rates) / now;
    out.push_back(std::move(fix));
  };
  for (const Change& change : changes) attempt({&change});
  for (std::size_t i = 0; i < changes.size() && out.size() < 3; ++i)
    for (std::size_t j = i + 1; j < changes.size(); ++j)
      if (changes[i].kind != changes[j].kind) attempt({&changes[i], &changes[j]});
  // The most of each kind, together.
  if (out.empty()) {
    std::vector<const Change*> all;
    for (std::size_t i = 0; i < changes.size(); ++i)
      if (i + 1 == changes.size() || changes[i + 1].kind != changes[i].kind) all.push_back(&changes[i]);
    if (all.size() > 2) attempt(all);
  }
  std::ranges::stable_sort(out, {}, &Fix::slowdown);
  return out;
}

void hold_to_memory_limit(const spec::Run& run, const program::Program& program) {
  const std::int64_t limit = run.layout.memory_limit_mib << 20;
  if (limit == 0) return;
  const plan::DevicePlan device = plan::device_plan(run.cluster.transport, program);
  if (plan::peak_bytes(program, device) <= limit) return;
  const auto size = [](std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  const auto ranks = plan::memory_of(program, device);
  const plan::RankMemory& fullest = *std::ranges::max_element(ranks, {}, &plan::RankMemory::peak_bytes);
  std::string text =
      cat("layout.memory_limit_mib = ", run.layout.memory_limit_mib, ": rank ", fullest.first_rank,
          " would hold ", size(fullest.peak_bytes), " in ", fullest.moment, ":");
  for (const Category category : kPlannedCategories)
    if (category != Category::host)
      text += cat(category == kPlannedCategories.front() ? " " : ", ", name_of(category), " ",
                  size(fullest.at_peak.of(category)));
  const auto found = fixes(run, program, limit);
  if (found.empty())
    throw UserError(
        cat(text,
            ".\nNothing that was tried fits: take more ranks (layout.dp_shard with layout.zero=3, "
            "layout.pp), a shorter model.sequence, or a larger limit."));
  text += ".\nWhat fits, the fastest first:\n";
  std::vector<std::vector<std::string>> rows = {{"change", "holds", "step time, simulated"}};
  constexpr std::size_t kMostFixes = 6;
  for (std::size_t i = 0; i < std::min(found.size(), kMostFixes); ++i)
    rows.push_back(
        {join(found[i].changes, " "), size(found[i].peak_bytes), cat(fixed(found[i].slowdown, 2), " x")});
  text += table(rows);
  text.pop_back();
  throw UserError(text);
}

}  // namespace tessera::planner
