// The ranks of a run whose workers do not wait for each other: who works, who serves, and what each of them
// runs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tessera/spec/spec.hpp"
#include "tessera/train/source/source.hpp"

namespace tessera::train {

// A worker is the pp x tp ranks that compute together; each of them has its own servers.
class Team {
 public:
  explicit Team(const spec::Layout& layout) : layout_(layout) {}

  int workers() const { return static_cast<int>(layout_.dp()); }
  // Nothing: it serves.
  std::optional<int> worker_of(int rank) const { return layout_.worker_of(rank); }
  std::vector<int> ranks_of_worker(int worker) const { return ranks_at({worker}); }
  std::vector<int> server_ranks() const;
  // Those of a worker and of the servers, as the mesh of run_of_worker numbers them.
  std::vector<int> ranks_with(int worker) const;
  // Who speaks for the others.
  int first_of_worker(int worker) const { return ranks_of_worker(worker).front(); }
  int first_server() const { return server_ranks().front(); }

 private:
  // At these places along the axis of workers and servers.
  std::vector<int> ranks_at(const std::vector<std::int64_t>& places) const;

  spec::Layout layout_;
};

// What a worker does, with all servers: a step on its share of the batch.
spec::Run run_of_worker(spec::Run run);
// What the servers hold, as a run of them alone that shards it: so it is saved and read.
spec::Run run_of_servers(spec::Run run);

// Steps of workers, each on its share of the batch of that number.
struct WorkerStep {
  int worker = 0;
  std::int64_t step = 1;  // counted from 1
};
// The samples of such steps, one after the other: `step_at(i)` is the i-th, counted from 0.
Source source_of_steps(Source source, const spec::Run& run, std::function<WorkerStep(std::int64_t)> step_at);

// The learning rate of the push of that number, counted from 1: as many as there are workers make a step.
double rate_of_push(const spec::Run& run, std::int64_t push);

}  // namespace tessera::train
