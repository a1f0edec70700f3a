// Distances of bounds from what is simulated, for layouts drawn among the most promising of a run:
//   build/release/plan_bounds examples/plan-405b.toml H100-80GB-SXM:256 [COUNT [MEMORY]]
// MEMORY: share of the devices' that there is. A line for each layout with its step as simulated over its
// bound, over the closed form, and its memory as replayed over its bound.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tessera/base/random.hpp"
#include "tessera/planner/search/answer.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/spec/problems.hpp"

int main(int argc, char** argv) {
  using namespace tessera;
  if (argc < 3) return std::puts("usage: plan_bounds RUN CLUSTER [COUNT [MEMORY]]"), 2;
  const planner::Cluster cluster = planner::read_cluster(argv[2]);
  const spec::Run run = planner::on_devices(spec::load(argv[1]), cluster);
  const int count = argc > 3 ? std::atoi(argv[3]) : 40;
  const double memory = planner::usable_bytes(cluster) * (argc > 4 ? std::atof(argv[4]) : 1);
  const planner::Limits limits{.memory_bytes = memory, .keep = 1024};
  const planner::Found found = planner::search(run, cluster, limits, {});
  std::vector<double> ratios;
  for (std::uint64_t i = 0; static_cast<int>(ratios.size()) < count && !found.fitting.empty() && i < 4096;
       ++i) {
    const planner::Candidate& one = found.fitting[random_bits(1, 0, i) % found.fitting.size()];
    spec::Run as_run = run;
    as_run.layout = one.layout;
    if (!spec::problems(as_run, spec::any_build()).empty()) continue;
    const planner::Refined refined = planner::refine_one(as_run, cluster, planner::Fit());
    ratios.push_back(refined.seconds / one.least_seconds);
    std::printf("%10.3f s, over bound %.3f, over closed form %.3f, memory over bound %.3f  %s\n",
                refined.seconds, ratios.back(), refined.seconds / one.estimate.step,
                refined.most_bytes() / one.bound_bytes, planner::layout_text(one.layout).c_str());
    std::fflush(stdout);
  }
  if (ratios.empty()) return std::puts("no layout fits"), 1;
  std::ranges::sort(ratios);
  std::printf("over bound: least %.3f, median %.3f, most %.3f\n", ratios.front(), ratios[ratios.size() / 2],
              ratios.back());
}
