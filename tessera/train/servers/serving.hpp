// What a server rank does for its workers, one service at a time: an executor of its ops for each of them,
// over groups with that worker, and one set of buckets for all.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "tessera/engine/executor.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

class Serving {
 public:
  // The weights and the optimizer's state are those of `home`, a session of run_of_servers, which must
  // outlive it. communicators[w]: those of worker w and the servers, as run_of_worker numbers them; all of
  // these are connected to here, one after the other.
  Serving(const spec::Run& run_of_worker, Session& home,
          std::span<const std::unique_ptr<collective::Communicator>> communicators);
  ~Serving();

  // Does it for the worker; false: the worker was lost meanwhile. Services of a worker come in the order
  // pull, push, update.
  bool run(int worker, program::Service service, std::optional<engine::Turns::Update> update = {});
  // Of its last update.
  const engine::StepReport& report(int worker) const { return slot(worker).report; }
  // Serves it no more; what it has pushed and nothing was updated with is forgotten.
  void drop(int worker);

  std::span<shard::FlatBucket> buckets() { return buckets_; }

 private:
  // One worker's thread, which goes through its ops and stops at each turn.
  struct Slot final : engine::Turns {
    std::optional<Update> wait(program::Service service) override;

    std::vector<collective::Group> groups;
    std::unique_ptr<engine::Executor> executor;
    engine::StepReport report;
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<program::Service> waits_at;
    bool may_go_on = false, is_dropped = false, has_ended = false;
    std::optional<Update> update;
    std::exception_ptr error;
    std::thread thread;
  };
  Slot& slot(int worker) { return *slots_[static_cast<std::size_t>(worker)]; }
  const Slot& slot(int worker) const { return *slots_[static_cast<std::size_t>(worker)]; }
  void make_buckets(const spec::Run& run, Session& home, int rank);
  void serve(Slot& slot);

  program::Program program_;
  shard::OffloadStore offload_store_;
  model::Model model_;  // of no units
  std::vector<shard::FlatBucket> buckets_;
  std::vector<optim::BucketOptimizer> optimizers_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

// The bits of the weights that these servers hold together; all of them call it.
std::string weight_bits(std::span<shard::FlatBucket> buckets, const collective::Group& servers);

}  // namespace tessera::train
