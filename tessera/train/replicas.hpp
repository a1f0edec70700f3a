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
//
// A replica that is lost is left out of the mean; its samples are not computed by others. One that comes back
// begins with the outer weights, the outer momentum and the optimizer state of the first, and counts in the
// mean from the exchange after the next local steps on.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/process/activity.hpp"
#include "tessera/collective/part.hpp"
#include "tessera/tensor/device.hpp"
#include "tessera/train/membership/membership.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

class Replicas {
 public:
  // Without local steps there is one of them, which is the whole run. `attendance` and `log` may be null.
  Replicas(const spec::Run& run, const collective::Communicator& all,
           const collective::Attendance* attendance = nullptr, ActivityLog* log = nullptr);
  ~Replicas();
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;

  bool are_apart() const { return membership_.has_value(); }
  std::int64_t count() const { return count_; }
  // Of these, how many take part now.
  std::int64_t num_present() const { return are_apart() ? std::ssize(membership_->replicas()) : 1; }
  bool is_first() const { return !are_apart() || membership_->replica() == 0; }
  bool is_newcomer() const { return is_newcomer_; }
  // Whether the others go on without this one.
  bool may_be_lost() const { return are_apart() && !is_first() && membership_->does_without_some(); }
  // Of the replica that this rank is in.
  const spec::Run& run() const { return run_; }
  const collective::Communicator& communicator() const;
  // Its share of every batch.
  Source source(Source whole) const;

  // The session stands where the run begins or goes on; its progress is that of the run. A newcomer's waits
  // until it is let in, and then stands where the others do; false: the run was over first.
  bool begin(Session& session);
  bool meet_after(std::int64_t step) const { return are_apart() && step % local_steps_ == 0; }
  // What the ranks of all replicas bring, added up; when they meet. Those that were lost are left out from
  // then on, and those that come back are let in.
  std::vector<double> sums(std::vector<double> values);
  // After such a sum and that step: begins the exchange, unless there was one after that step; with `waits`
  // it is over when this returns.
  void exchange(std::int64_t step, bool waits);
  // After each step: an exchange whose time is over ends. `are_looked_at`: the weights must be equal on all
  // replicas, which then meet and wait for each other; all of them say so after the same steps.
  void after_step(std::int64_t step, bool are_looked_at);
  // Calls and bytes of this rank in exchanges that have ended since the last call.
  std::vector<MovedAlong> take_moved();
  // Who was lost and who came back since the last call, for people.
  std::vector<std::string> take_news();

 private:
  // What is kept of a bucket.
  struct Outer {
    tensor::Tensor weights, momentum;  // equal on all replicas
    tensor::Tensor begun_with;         // of this one, when the exchange under way began
    tensor::Tensor moved;              // by this one, then the mean of all
  };
  void begin_outer();
  void bring_newcomers_up();
  void hand_over(const collective::Group& counterparts);
  std::future<bool> begun(bool ends_here);
  void reduce(const collective::Group& counterparts);
  void finish();
  void step_outside(Outer& outer) const;

  spec::Run run_;
  spec::Training training_;
  ActivityLog* log_;
  const collective::Communicator& all_;
  std::int64_t local_steps_, count_;
  std::optional<Membership> membership_;
  std::optional<collective::PartCommunicator> part_;
  Session* session_ = nullptr;
  std::vector<Outer> outer_;                // by bucket of the session
  std::future<bool> under_way_;             // whether it went well here
  std::optional<tensor::SideStream> side_;  // of exchanges; nothing on a CPU
  std::int64_t begun_after_ = 0, exchanged_after_ = -1;
  std::int64_t let_in_after_ = -1;  // the newest newcomers
  collective::Volume exchanged_, told_;
  std::vector<int> told_replicas_;
  bool is_newcomer_ = false;
  std::optional<std::vector<double>> let_in_with_;  // sums that a newcomer has and not told yet
};

}  // namespace tessera::train
