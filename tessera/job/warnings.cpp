#include "tessera/job/warnings.hpp"

#include "tessera/base/text.hpp"

namespace tessera::job {

std::vector<std::string> warnings_of(const spec::Run& run, int cores, const std::string& started_by) {
  std::vector<std::string> out;
  const std::int64_t ranks = run.layout.ranks();
  const spec::Training& training = run.training;
  if (training.warmup_steps > training.steps)
    out.push_back(cat("training.warmup_steps = ", training.warmup_steps, " is above training.steps = ",
                      training.steps, ": the learning rate never reaches training.learning_rate"));
  if (run.cluster.devices > ranks)
    out.push_back(cat("cluster.devices = ", run.cluster.devices, ", and the layout has ", ranks,
                      ranks == 1 ? " rank" : " ranks",
                      ": the other devices are not used. layout.dp takes more"));
  if (cores > 0 && ranks > cores && !spec::traits(run.cluster.transport).uses_gpus)
    out.push_back(cat(ranks, " ranks share ", cores, cores == 1 ? " core" : " cores",
                      ": they take turns, and a step takes longer than on ", cores,
                      cores == 1 ? " rank" : " ranks"));
  if (run.cluster.restarts > 0 && !started_by.empty())
    out.push_back(cat("cluster.restarts = ", run.cluster.restarts, " has no effect: ", started_by,
                      " has started the ranks, and only it can start them again"));
  else if (run.cluster.restarts > 0 && !run.checkpoint.saves())
    out.push_back(cat("cluster.restarts = ", run.cluster.restarts,
                      ", and nothing is saved: ranks that are started again begin at the first step. Set "
                      "checkpoint.every or checkpoint.every_minutes"));
  return out;
}

}  // namespace tessera::job
