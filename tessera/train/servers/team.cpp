#include "tessera/train/servers/team.hpp"

#include <numeric>

#include "tessera/optim/optimizer.hpp"

namespace tessera::train {

std::vector<int> Team::ranks_at(const std::vector<std::int64_t>& places) const {
  std::vector<int> out;
  const std::int64_t all = layout_.dp() + layout_.servers;
  for (std::int64_t stage = 0; stage < layout_.pp; ++stage)
    for (const std::int64_t place : places)
      for (std::int64_t t = 0; t < layout_.tp; ++t)
        out.push_back(static_cast<int>((stage * all + place) * layout_.tp + t));
  return out;
}

std::vector<int> Team::server_ranks() const {
  std::vector<std::int64_t> places(static_cast<std::size_t>(layout_.servers));
  std::iota(places.begin(), places.end(), layout_.dp());
  return ranks_at(places);
}

std::vector<int> Team::ranks_with(int worker) const {
  std::vector<std::int64_t> places(static_cast<std::size_t>(layout_.servers) + 1);
  std::iota(places.begin(), places.end(), layout_.dp() - 1);
  places.front() = worker;
  return ranks_at(places);
}

spec::Run run_of_worker(spec::Run run) {
  run.training.global_batch /= run.layout.dp();
  run.layout.dp_shard = 1;
  return run;
}

spec::Run run_of_servers(spec::Run run) {
  run.layout.dp_shard = run.layout.servers;
  run.layout.zero = 1;
  run.layout.servers = 0;
  run.layout.updates = spec::Updates::synchronous;
  run.layout.staleness = 0;
  return run;
}

Source source_of_steps(Source source, const spec::Run& run, std::function<WorkerStep(std::int64_t)> step_at) {
  const auto batch = static_cast<std::uint64_t>(run.training.global_batch),
             share = batch / static_cast<std::uint64_t>(run.layout.dp());
  return [=, source = std::move(source), step_at = std::move(step_at)](
             std::span<const std::uint64_t> samples, std::span<std::int64_t> tokens,
             std::span<std::int64_t> targets, std::span<std::int64_t> documents) {
    std::vector<std::uint64_t> of_all;
    for (const std::uint64_t sample : samples) {
      const WorkerStep at = step_at(static_cast<std::int64_t>(sample / share));
      of_all.push_back(static_cast<std::uint64_t>(at.step - 1) * batch +
                       static_cast<std::uint64_t>(at.worker) * share + sample % share);
    }
    source(of_all, tokens, targets, documents);
  };
}

double rate_of_push(const spec::Run& run, std::int64_t push) {
  return optim::learning_rate(run.training, (push - 1) / run.layout.dp());
}

}  // namespace tessera::train
