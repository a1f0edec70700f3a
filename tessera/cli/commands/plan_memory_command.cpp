#include <algorithm>
#include <cstdio>

#include "tessera/base/text.hpp"
#include "tessera/cli/commands/commands.hpp"
#include "tessera/families/families.hpp"
#include "tessera/job/machine_memory.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/describe.hpp"
#include "tessera/plan/memory/memory.hpp"
#include "tessera/planner/variants/fixes.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/spec/problems.hpp"

namespace tessera::cli {
namespace {

using plan::RankMemory;

constexpr std::size_t kMostAlive = 12;  // cells told one by one

std::string size(std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

// The largest one by one, the rest together.
std::vector<RankMemory::Alive> largest(const std::vector<RankMemory::Alive>& alive) {
  std::vector<RankMemory::Alive> out(alive.begin(),
                                     alive.begin() + static_cast<long>(std::min(alive.size(), kMostAlive)));
  std::int64_t rest = 0;
  for (std::size_t i = kMostAlive; i < alive.size(); ++i) rest += alive[i].bytes;
  if (alive.size() > kMostAlive)
    out.push_back({cat(alive.size() - kMostAlive, " smaller ones together"), rest});
  return out;
}

std::string title_of(const spec::Run& run, const program::Program& program) {
  const spec::Layout& layout = run.layout;
  std::string out =
      cat(spec::word(run.model.family), ", ",
          count_text(static_cast<double>(plan::num_parameters(program.tables))), " parameters, ",
          run.model.experts > 0
              ? cat(count_text(static_cast<double>(plan::num_active_parameters(run.model, program.tables))),
                    " for a token, ")
              : "",
          spec::word(layout.precision), ": ", layout.ranks(), " rank", layout.ranks() == 1 ? "" : "s",
          ", zero ", layout.zero, ", recompute ", spec::word(layout.recompute), ", ", run.num_micro_batches(),
          " micro-batch", run.num_micro_batches() == 1 ? "" : "es", " of ", layout.micro_batch, " x ",
          run.model.sequence, " tokens");
  if (layout.pp > 1) out += cat(", ", layout.pp, " stages by ", spec::schedule_name(layout));
  return out;
}

// What the fullest rank would hold if as many tokens came to the experts of each as can.
std::int64_t most_peak_bytes(spec::Run run) {
  run.layout.expert_load = 0;
  const program::Program program = plan::compile(families::step_request(run));
  return plan::peak_bytes(program, plan::device_plan(run.cluster.transport, program));
}

bool has_uneven_loads(const spec::Run& run) { return run.layout.ep * run.layout.etp > 1; }

std::string about_loads(const spec::Run& run) {
  const double load = run.layout.expert_load;
  if (load == 0) return "\nplanned for as many tokens as can come to the experts of one rank\n";
  return cat("\nplanned for ",
             load == 1 ? "an even load of experts" : cat(load, " times an even load of experts"),
             ": a rank to which as many tokens came as can would hold ", size(most_peak_bytes(run)),
             " (layout.expert_load)\n");
}

std::string to_text(const spec::Run& run, const program::Program& program,
                    const std::vector<RankMemory>& ranks) {
  std::string out = cat(title_of(run, program), "\n\n");
  std::vector<std::vector<std::string>> rows = {{"rank", "equal ranks"}};
  for (const Category category : kPlannedCategories)
    if (category != Category::host) rows[0].emplace_back(name_of(category));
  rows[0].insert(rows[0].end(), {"at the peak", "outside"});
  for (const RankMemory& rank : ranks) {
    auto& row = rows.emplace_back(std::vector{cat(rank.first_rank), cat(rank.num_ranks)});
    for (const Category category : kPlannedCategories)
      if (category != Category::host) row.push_back(size(rank.at_peak.of(category)));
    row.push_back(size(rank.peak_bytes));
    row.push_back(size(rank.at_peak.of(Category::host)));
  }
  out += table(rows);
  const RankMemory& fullest = *std::ranges::max_element(ranks, {}, &RankMemory::peak_bytes);
  out += cat("\nrank ", fullest.first_rank, " holds most in ", fullest.moment, "; alive there:\n");
  std::vector<std::vector<std::string>> alive = {{"bytes", "of"}};
  for (const auto& [what, bytes] : largest(fullest.alive)) alive.push_back({size(bytes), what});
  out += table(alive);
  if (has_uneven_loads(run)) out += about_loads(run);
  if (const std::int64_t limit = run.layout.memory_limit_mib << 20; limit >= fullest.peak_bytes && limit > 0)
    out += cat("\n", size(limit - fullest.peak_bytes), " of the limit of ", size(limit), " are left\n");
  return out;
}

// Of all ranks; what they offload lies in memory too, unless in files.
std::int64_t bytes_of_all(const spec::Run& run, const std::vector<RankMemory>& ranks) {
  std::int64_t out = 0;
  for (const RankMemory& rank : ranks)
    out += rank.num_ranks *
           (rank.peak_bytes + (run.layout.offload_folder.empty() ? rank.at_peak.of(Category::host) : 0));
  return out;
}

std::string compared_with_machine(std::int64_t bytes, std::int64_t num_ranks, double usable_bytes) {
  const bool fits = static_cast<double>(bytes) <= usable_bytes;
  return cat(
      "\n", num_ranks == 1 ? "the rank" : cat("all ", num_ranks, " ranks together"), " would hold ",
      size(bytes), " of tensors; this machine has ", bytes_text(usable_bytes), " of memory",
      fits ? "\n"
           : ", which is not enough for all of them: spread them over machines, or let each hold less\n");
}

metrics::Record to_record(const RankMemory& rank) {
  metrics::Record out = {
      {"first_rank", rank.first_rank}, {"num_ranks", rank.num_ranks}, {"peak_bytes", rank.peak_bytes}};
  for (const Category category : kPlannedCategories)
    out.push_back({std::string(name_of(category)), rank.at_peak.of(category)});
  out.push_back({"op", std::int64_t{rank.peak_op}});
  out.push_back({"moment", rank.moment});
  std::vector<metrics::Record> alive;
  for (const auto& [what, bytes] : rank.alive) alive.push_back({{"what", what}, {"bytes", bytes}});
  out.push_back({"alive", alive});
  return out;
}

}  // namespace

int plan_memory_command(const Options& options) {
  const spec::Run run = job::load_run(options, spec::any_build());
  const program::Program program = plan::compile(families::step_request(run));
  const plan::DevicePlan device = plan::device_plan(run.cluster.transport, program);
  const auto ranks = plan::memory_of(program, device);
  if (options.json) {
    std::vector<metrics::Record> records;
    for (const RankMemory& rank : ranks) records.push_back(to_record(rank));
    const metrics::Record out = {
        {"parameters", plan::num_parameters(program.tables)},
        {"active_parameters", plan::num_active_parameters(run.model, program.tables)},
        {"peak_bytes", plan::peak_bytes(program, device)},
        {"most_load_peak_bytes",
         has_uneven_loads(run) ? most_peak_bytes(run) : plan::peak_bytes(program, device)},
        {"limit_bytes", run.layout.memory_limit_mib << 20},
        {"all_ranks_bytes", bytes_of_all(run, ranks)},
        {"machine_bytes", static_cast<std::int64_t>(job::machine_memory().usable_bytes())},
        {"classes", records}};
    std::puts(metrics::json_object(out).c_str());
  } else {
    std::fputs(to_text(run, program, ranks).c_str(), stdout);
    if (!spec::traits(run.cluster.transport).uses_gpus)
      std::fputs(compared_with_machine(bytes_of_all(run, ranks), run.layout.ranks(),
                                       job::machine_memory().usable_bytes())
                     .c_str(),
                 stdout);
    std::fflush(stdout);
  }
  planner::hold_to_memory_limit(run, program);
  return 0;
}

}  // namespace tessera::cli
