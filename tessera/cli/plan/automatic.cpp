#include "tessera/cli/plan/automatic.hpp"

#include <cstdio>
#include <thread>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/huggingface/tensor_files.hpp"
#include "tessera/cli/plan/this_machine.hpp"
#include "tessera/job/joined.hpp"
#include "tessera/planner/search/answer.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/spec/problems.hpp"

namespace tessera::cli {

void plan_layout(job::JobOptions& options, bool quiet) {
  if (job::started_by_launcher()) return;  // which has planned it

  spec::Run run = spec::load_unchecked(options.file, options.overrides, checkpoint::described);
  if (!run.layout.automatic) return;
  if (job::joined_membership(options.joins))
    throw UserError(
        "layout = \"auto\" is planned by the process that starts the ranks. Write the layout down first: "
        "tessera plan RUN --cluster ... --write planned.toml");
  if (spec::traits(run.cluster.transport).uses_gpus)
    throw UserError(
        "layout = \"auto\" measures the cores of this machine, and this run wants GPUs. Plan it beforehand: "
        "tessera plan RUN --cluster H100-80GB-SXM:8 --write planned.toml");
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int ranks = options.procs > 0 ? options.procs : cores;
  run.layout.automatic = false;
  spec::validate(run, spec::any_build());
  const planner::Plan plan =
      planner::plan(run, this_machine(ranks, run.layout.precision), planner::Fit(), {.answers = 6});
  if (!quiet) std::fputs((planner::to_text(plan, false) + "\n").c_str(), stderr);
  std::vector<std::string> keys = planner::layout_keys(plan.answers.front().refined.candidate.layout);
  keys.emplace_back("layout.automatic=false");
  for (const std::string& key : keys) options.overrides.push_back(key), options.argv.push_back(key);
}

}  // namespace tessera::cli
