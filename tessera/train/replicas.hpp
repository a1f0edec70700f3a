// Replicas that make steps by themselves and meet every so many of them (training.local_steps): local SGD
// with an average of the weights, or DiLoCo with an outer optimizer.
//
// Note [Local steps]
// Each replica is a job of its own: a session of the layout without dp_replicate, on its share of every
// batch. When they meet, each brings how far it has moved from the weights that all began with,
//   moved = outer - own,
// and the mean of these is the gradient of an outer step on `outer`, which all make alike. A replica then
// goes on with the outer weights. Where the exchange may take `outer_delay` steps, it runs beside them, and
// what the replica has moved meanwhile is added to them. Nothing else crosses between replicas; their
// optimizers keep a state each, of which a checkpoint has that of the first.
#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <vector>

#include "tessera/collective/part.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

class Replicas {
 public:
  // Without local steps there is one of them, which is the whole run.
  Replicas(const spec::Run& run, const collective::Communicator& all);
  ~Replicas();
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;

  bool are_apart() const { return local_steps_ > 0; }
  std::int64_t count() const { return count_; }
  bool is_first() const { return number_ == 0; }
  // Of the replica that this rank is in.
  const spec::Run& run() const { return run_; }
  const collective::Communicator& communicator() const;
  // Its share of every batch.
  Source source(Source whole) const;

  // The session stands where the run begins or goes on; its progress is that of the run.
  void begin(Session& session);
  bool meet_after(std::int64_t step) const { return are_apart() && step % local_steps_ == 0; }
  // What the ranks of all replicas bring, added up; when they meet.
  std::vector<double> sums(std::vector<double> values) const;
  // Begins the exchange after a step; with `waits` it is over when this returns. Once for a step.
  void exchange(Session& session, std::int64_t step, bool waits);
  bool has_exchanged(std::int64_t step) const { return exchanged_after_ == step; }
  // After each step: an exchange whose time is over ends. `are_looked_at`: the weights must be equal on all
  // replicas, which then meet and wait for each other; all of them say so after the same steps.
  void after_step(Session& session, std::int64_t step, bool are_looked_at);
  // Calls and bytes of this rank in exchanges that have ended since the last call.
  std::vector<MovedAlong> take_moved();

 private:
  // What is kept of a bucket.
  struct Outer {
    tensor::Tensor weights, momentum;  // equal on all replicas
    tensor::Tensor begun_with;         // of this one, when the exchange under way began
    tensor::Tensor moved;              // by this one, then the mean of all
  };
  void finish(Session& session);
  void step_outside(Outer& outer) const;

  spec::Run run_;
  spec::Training training_;
  const collective::Communicator& all_;
  std::int64_t local_steps_, count_, number_ = 0;
  std::optional<collective::PartCommunicator> part_;
  collective::Group everyone_, counterparts_;  // all ranks; those in this rank's place in each replica
  std::vector<Outer> outer_;                   // by bucket of the session
  std::future<void> under_way_;
  std::int64_t begun_after_ = 0, exchanged_after_ = -1;
  collective::Volume told_;
};

}  // namespace tessera::train
