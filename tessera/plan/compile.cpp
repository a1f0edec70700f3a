#include "tessera/plan/compile.hpp"

#include <algorithm>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/plan/communication.hpp"
#include "tessera/plan/describe.hpp"
#include "tessera/plan/memory/budget.hpp"
#include "tessera/plan/stages/segments.hpp"
#include "tessera/plan/stages/staging.hpp"
#include "tessera/plan/step_seconds.hpp"
#include "tessera/program/check/check.hpp"
#include "tessera/program/memory/memory.hpp"
#include "tessera/program/passes/generate.hpp"
#include "tessera/simulate/costs.hpp"

namespace tessera::plan {

namespace {

program::Residency residency(const spec::Layout& layout) {
  program::Residency out{.overlap = layout.overlap, .keeps_full = layout.zero < 3};
  out.keep_bytes = layout.keep_mib << 20;
  out.prefetch = static_cast<std::uint32_t>(layout.prefetch);
  out.holds_back = layout.updates == spec::Updates::synchronous;  // servers take what is whole
  if (layout.zero >= 2) out.reduce_every = static_cast<std::int32_t>(layout.reduce_every);
  return out;
}

program::Offload offload(const spec::Layout& layout) {
  return {.optimizer = spec::offloads(layout, spec::Offload::optimizer),
          .parameters = spec::offloads(layout, spec::Offload::parameters),
          .values = spec::offloads(layout, spec::Offload::values)};
}

// Stages were dealt before a budget's choice was made: what it recomputes takes time too.
program::Staging timed(program::Staging staging, const StepRequest& request, const Cuts& cuts) {
  if (request.layout.recompute != spec::Recompute::budget) return staging;
  for (std::size_t stage = 0; stage < staging.costs.stages.size(); ++stage)
    for (std::size_t block = 0; block < request.model.blocks.size(); ++block)
      if (block + 1 >= staging.first_segment[stage] && block + 1 < staging.first_segment[stage + 1])
        staging.costs.stages[stage].input += recompute_seconds(request.model.blocks[block], cuts[block]);
  return staging;
}

}  // namespace

namespace {

// With one stage there is always a pair; of the pipelines only some have their pairs where no rank waits.
bool takes_turns(const spec::Layout& layout) {
  if (!layout.tp_overlap && !layout.ep_overlap) return false;
  return layout.pp == 1 || (layout.schedule_file.empty() && spec::entry(layout.schedule).traits.is_paired);
}

program::GenerateOptions generate_options(const StepRequest& request, const program::Tables& tables) {
  const spec::Layout& layout = request.layout;
  const std::int64_t ahead_bytes = layout.receive_ahead_mib << 20;
  const std::int64_t value_bytes = std::max<std::int64_t>(tables.values.front().bytes, 1);
  const auto ahead = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(ahead_bytes / value_bytes, 1, std::numeric_limits<std::uint32_t>::max()));
  program::GenerateOptions out{.residency = residency(layout),
                               .offload = offload(layout),
                               .take_turns = takes_turns(layout),
                               .take_server_turns = layout.updates != spec::Updates::synchronous,
                               .receives_ahead = ahead};
  if (layout.communication == spec::Communication::priority)
    out.priority = {.seconds =
                        [rates = request.rates](const program::Op& op, const program::Tables& tables) {
                          return simulate::total_seconds(simulate::cost(op, tables, rates));
                        },
                    .credit_bytes = layout.credit_kib << 10};
  return out;
}

void expect_right(const program::Program& program, const char* what,
                  const program::CheckOptions& options = {}) {
  const auto problems = program::check(program, options);
  TESSERA_CHECK(problems.empty(), what, ":\n", program::to_text(problems));
}

}  // namespace

program::Program compile_cut(const StepRequest& request, const Staged& staged, const Cuts& cuts) {
  const bool is_pipeline = request.layout.pp > 1;
  const auto tables = describe(
      request, is_pipeline ? std::span(staged.rank_of_unit) : std::span<const std::uint32_t>(), cuts);
  return program::generate(tables, staged.order, in_segments(timed(staged.staging, request, cuts), tables),
                           generate_options(request, tables));
}

namespace {

Cuts chosen_cuts(const StepRequest& request, const Staged& staged) {
  const spec::Layout& layout = request.layout;
  if (layout.recompute != spec::Recompute::budget) return cuts(layout, request.model.blocks);
  const auto peaks_of = [&](const Cuts& cuts) {
    const program::Program program = compile_cut(request, staged, cuts);
    std::vector<std::int64_t> peaks;
    for (const program::Sequence& sequence : program.classes)
      peaks.push_back(program::replay_memory(sequence, program.tables).peak_bytes);
    return peaks;
  };
  const BlockValues values{layout.micro_batch * request.model.sequence, compute_dtype(layout.precision)};
  return cuts_within({layout.memory_limit_mib << 20, staged, peaks_of, values}, request.model.blocks);
}

}  // namespace

program::Program compile_unchecked(const StepRequest& request, std::string* note) {
  const Staged staged = stage(request);
  if (note) *note = staged.note;
  if (request.layout.communication != spec::Communication::automatic)
    return compile_cut(request, staged, chosen_cuts(request, staged));
  // A budget compiles very many programs: what is communicated in which order is settled before.
  const bool has_budget = request.layout.recompute == spec::Recompute::budget;
  StepRequest changed = request;
  if (has_budget) changed.layout.recompute = spec::Recompute::none;
  const Cuts given = cuts(changed.layout, changed.model.blocks);
  Candidate best = fastest_communication(changed.layout, [&](const spec::Layout& layout) {
    changed.layout = layout;
    Candidate out{layout, compile_cut(changed, staged, given)};
    out.seconds = step_seconds(out.program, request.rates);
    return out;
  });
  if (note) *note += cat(note->empty() ? "" : "; ", communication_words(best.layout));
  if (!has_budget) return std::move(best.program);
  changed.layout = best.layout;
  changed.layout.recompute = spec::Recompute::budget;
  return compile_cut(changed, staged, chosen_cuts(changed, staged));
}

program::Program compile(const StepRequest& request, std::string* note) {
  program::Program out = compile_unchecked(request, note);
  expect_right(out, "the compiled program is wrong");
  return out;
}

std::vector<program::Sequence> compile_evaluation(const StepRequest& request, const program::Tables& tables) {
  const Staged staged = stage(request);
  program::Tables newest = tables;
  for (program::Bucket& bucket : newest.buckets) bucket.delayed = false;
  newest.steps_overlap = false;
  program::GenerateOptions options = generate_options(request, tables);
  options.offload = {.parameters = options.offload.parameters};
  program::Program out = program::generate(newest, program::forwards_of(staged.order),
                                           in_segments(staged.staging, tables), options);
  expect_right(out, "the program that evaluates is wrong");
  return std::move(out.classes);
}

std::vector<program::Slots> place_in_slots(program::Program& program) {
  std::vector<program::Slots> out = program::place_in_slots(program);
  expect_right(program, "the program is wrong with its slots", {.runs_ahead = false});
  return out;
}

}  // namespace tessera::plan
