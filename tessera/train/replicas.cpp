#include "tessera/train/replicas.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/tensor/account.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::train {

namespace {

using collective::CallKind;
using tensor::read_here;
using tensor::Tensor;

}  // namespace

Replicas::Replicas(const spec::Run& run, const collective::Communicator& all,
                   const collective::Attendance* attendance, ActivityLog* log)
    : run_(run.of_replica()),
      training_(run.training),
      log_(log),
      all_(all),
      local_steps_(run.training.local_steps),
      count_(local_steps_ > 0 ? run.layout.dp_replicate : 1) {
  if (local_steps_ == 0) return;
  membership_.emplace(run.layout, all, count_ > 1 ? attendance : nullptr);
  if (!all.device().is_cpu()) side_.emplace(all.device());
  told_replicas_ = membership_->replicas();
  is_newcomer_ = count_ > 1 && attendance && attendance->is_newcomer;
  part_.emplace(all, run.layout.ranks_of_replica(membership_->replica()));
}

Replicas::~Replicas() {
  if (!under_way_.valid()) return;
  membership_->abort();  // the run has failed: nobody is sure to come
  under_way_.wait();
}

const collective::Communicator& Replicas::communicator() const {
  return part_ ? static_cast<const collective::Communicator&>(*part_) : all_;
}

Source Replicas::source(Source whole) const {
  if (!are_apart()) return whole;
  const auto share = static_cast<std::uint64_t>(run_.training.global_batch),
             replicas = static_cast<std::uint64_t>(count_),
             number = static_cast<std::uint64_t>(membership_->replica());
  return [=, whole = std::move(whole)](std::span<const std::uint64_t> samples, std::span<std::int64_t> tokens,
                                       std::span<std::int64_t> targets, std::span<std::int64_t> documents) {
    std::vector<std::uint64_t> of_all;
    for (const std::uint64_t sample : samples)
      of_all.push_back((sample / share * replicas + number) * share + sample % share);
    whole(of_all, tokens, targets, documents);
  };
}

bool Replicas::begin(Session& session) {
  session_ = &session;
  if (!are_apart()) return true;
  if (!is_newcomer_) {
    checkpoint::Progress own = session.progress();
    own.next_sample /= static_cast<std::uint64_t>(count_);
    session.go_on_from(own);
    exchanged_after_ = own.step;
    begin_outer();
    return true;
  }
  begin_outer();
  {
    const During joining(log_, Doing::joining);
    let_in_with_ = membership_->join();
  }
  if (!let_in_with_) return false;
  told_replicas_ = membership_->replicas();
  bring_newcomers_up();
  return true;
}

void Replicas::begin_outer() {
  outer_.clear();
  for (shard::FlatBucket& bucket : session_->buckets()) {
    Outer& outer = outer_.emplace_back();
    outer.weights = session_->shard_of(bucket).clone();
    outer.momentum = session_->outer_momentum(bucket);
  }
}

void Replicas::bring_newcomers_up() {
  const During meeting(log_, Doing::meeting, session_->progress().step);
  membership_->together([this](const auto& counterparts) { hand_over(counterparts); });
  let_in_after_ = session_->progress().step;
}

// The first of them, which is always there, sends what it has. A newcomer's own weights are the outer ones:
// it has not moved.
void Replicas::hand_over(const collective::Group& counterparts) {
  constexpr int kTag = 0;
  constexpr std::chrono::milliseconds kLook{100};
  const auto& replicas = membership_->replicas();
  std::vector<int> to;  // positions
  for (const int newcomer : membership_->newcomers())
    to.push_back(static_cast<int>(std::ranges::find(replicas, newcomer) - replicas.begin()));
  const bool is_new = membership_->is_newcomer();
  if (!is_new && membership_->replica() != 0) return;
  const auto pass_on = [&](Tensor values) {
    if (is_new) counterparts.receive(values, 0, kTag);
    for (const int position : to)
      if (!is_new) counterparts.send(values, position, kTag);
    // Before the next is sent: a send holds a copy.
    while (!is_new && counterparts.unfinished_sends(kLook) > 0) continue;
  };
  checkpoint::Progress progress = session_->progress();
  std::vector<std::int64_t> numbers = {progress.step, progress.updates,
                                       static_cast<std::int64_t>(progress.next_sample), progress.reset_after,
                                       exchanged_after_};
  pass_on(tensor::view_of(numbers.data(), {std::ssize(numbers)}, at::kLong));
  for (std::size_t i = 0; i < outer_.size(); ++i) {
    const shard::FlatBucket& bucket = session_->buckets()[i];
    pass_on(outer_[i].weights);
    const auto kept = session_->kept(bucket);
    for (std::size_t part = 1; part < kept.size(); ++part) pass_on(kept[part].flat);
    if (!is_new) continue;
    Tensor own = kept.front().flat;
    own.copy_(outer_[i].weights);
    session_->put_back(bucket, kept);
  }
  if (!is_new) return;
  progress.step = numbers[0], progress.updates = numbers[1];
  progress.next_sample = static_cast<std::uint64_t>(numbers[2]), progress.reset_after = numbers[3];
  exchanged_after_ = numbers[4];
  session_->go_on_from(progress);
}

std::vector<double> Replicas::sums(std::vector<double> values) {
  if (let_in_with_) return *std::exchange(let_in_with_, std::nullopt);
  {
    const During meeting(log_, Doing::meeting, session_->progress().step);
    values = membership_->sums(std::move(values));
  }
  if (!membership_->newcomers().empty()) bring_newcomers_up();
  return values;
}

void Replicas::exchange(std::int64_t step, bool waits) {
  if (exchanged_after_ == step) return;
  if (under_way_.valid()) finish();
  exchanged_after_ = begun_after_ = step;
  for (std::size_t i = 0; i < outer_.size(); ++i)
    outer_[i].begun_with = session_->shard_of(session_->buckets()[i]).clone();
  const bool ends_here = waits || training_.outer_delay == 0;
  under_way_ = begun(ends_here);
  if (ends_here) finish();
}

// Beside the next steps by a thread of its own. An accelerator's is issued at once, to a stream of its own,
// so that all ranks issue it between the same steps.
std::future<bool> Replicas::begun(bool ends_here) {
  const auto attempt = [this] {
    return membership_->attempt([this](const auto& counterparts) { reduce(counterparts); });
  };
  if (side_) {
    bool went_well = false;
    side_->issue([&] { went_well = attempt(); });
    return std::async(std::launch::deferred, [went_well] { return went_well; });
  }
  if (ends_here) return std::async(std::launch::deferred, attempt);
  return std::async(std::launch::async, [attempt, account = tensor::Account::current()] {
    const tensor::AccountScope of_rank(account);
    tensor::set_threads(1);
    return attempt();
  });
}

// A bucket after the other: slices of the exchange. From what was there when it began, as it may be tried
// again.
void Replicas::reduce(const collective::Group& counterparts) {
  // Whoever has been let in since the last step has not moved yet.
  const std::size_t others = begun_after_ == let_in_after_ ? membership_->newcomers().size() : 0;
  const auto num_moved = static_cast<double>(membership_->replicas().size() - others);
  for (Outer& outer : outer_) {
    outer.moved = read_here(outer.weights).sub(read_here(outer.begun_with));
    counterparts.all_reduce_sum(outer.moved);
    outer.moved.div_(num_moved);
  }
}

void Replicas::after_step(std::int64_t step, bool are_looked_at) {
  if (under_way_.valid() && step == begun_after_ + training_.outer_delay) finish();
  if (are_apart() && are_looked_at) exchange(step, true);
}

void Replicas::step_outside(Outer& outer) const {
  switch (training_.outer_optimizer) {
    case spec::OuterOptimizer::average:
      outer.weights.sub_(outer.moved);
      return;
    case spec::OuterOptimizer::nesterov:
      outer.momentum.mul_(training_.outer_momentum).add_(outer.moved);
      outer.weights.sub_(outer.moved, training_.outer_learning_rate);
      outer.weights.sub_(outer.momentum, training_.outer_learning_rate * training_.outer_momentum);
      return;
  }
}

void Replicas::finish() {
  const During meeting(log_, Doing::meeting, session_->progress().step);
  for (bool went_well = under_way_.get(); !membership_->agree(went_well);)
    went_well = membership_->attempt([this](const auto& counterparts) { reduce(counterparts); });
  exchanged_ = membership_->reduced();
  if (side_) side_->join();
  for (std::size_t i = 0; i < outer_.size(); ++i) {
    const shard::FlatBucket& bucket = session_->buckets()[i];
    Outer& outer = outer_[i];
    read_here(outer.moved);
    step_outside(outer);
    const auto kept = session_->kept(bucket);
    Tensor own = kept.front().flat;
    if (begun_after_ == session_->progress().step)
      own.copy_(outer.weights);
    else
      own.add_(outer.weights.sub(outer.begun_with));
    session_->put_back(bucket, kept);
    outer.begun_with = outer.moved = Tensor();
  }
}

std::vector<MovedAlong> Replicas::take_moved() {
  const auto since = exchanged_ - told_;
  told_ = exchanged_;
  if (since.calls == 0) return {};
  return {{"replicas", collective::word(CallKind::all_reduce), since.calls, since.bytes,
           collective::sent_bytes(CallKind::all_reduce, since.bytes, num_present())}};
}

std::vector<std::string> Replicas::take_news() {
  std::vector<std::string> out;
  if (!are_apart()) return out;
  const auto& now = membership_->replicas();
  const auto tell = [&](const std::vector<int>& replicas, const std::vector<int>& without, const char* what) {
    for (const int replica : replicas)
      if (std::ranges::count(without, replica) == 0)
        out.push_back(cat("replica ", replica, what, "; ", now.size(), " of ", count_, " take part"));
  };
  tell(told_replicas_, now, " is lost");
  tell(now, told_replicas_, " is back");
  told_replicas_ = now;
  return out;
}

}  // namespace tessera::train
