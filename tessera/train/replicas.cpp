#include "tessera/train/replicas.hpp"

#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/tensor/account.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::train {

namespace {

using collective::CallKind;

// Of the replica of that number, in the order of their places in it: dp_replicate lies inside of the stages.
std::vector<int> ranks_of(const spec::Layout& layout, std::int64_t replica) {
  const std::int64_t inner = layout.ranks() / layout.pp / layout.dp_replicate;
  std::vector<int> out;
  for (std::int64_t stage = 0; stage < layout.pp; ++stage)
    for (std::int64_t place = 0; place < inner; ++place)
      out.push_back(static_cast<int>((stage * layout.dp_replicate + replica) * inner + place));
  return out;
}

spec::Run run_of_replica(spec::Run run) {
  if (run.training.local_steps == 0) return run;
  run.training.global_batch /= run.layout.dp_replicate;
  run.layout.dp_replicate = 1;
  return run;
}

}  // namespace

Replicas::Replicas(const spec::Run& run, const collective::Communicator& all)
    : run_(run_of_replica(run)),
      training_(run.training),
      all_(all),
      local_steps_(run.training.local_steps),
      count_(local_steps_ > 0 ? run.layout.dp_replicate : 1) {
  if (!are_apart()) return;
  std::vector<int> everyone(static_cast<std::size_t>(all.size())), counterparts;
  std::iota(everyone.begin(), everyone.end(), 0);
  const std::int64_t inner = run.layout.ranks() / run.layout.pp / count_;
  number_ = all.rank() / inner % count_;
  const std::int64_t first = all.rank() - number_ * inner;
  for (std::int64_t replica = 0; replica < count_; ++replica)
    counterparts.push_back(static_cast<int>(first + replica * inner));
  auto groups = collective::make_groups(all, {everyone, counterparts});
  everyone_ = groups[0], counterparts_ = groups[1];
  part_.emplace(all, ranks_of(run.layout, number_));
}

Replicas::~Replicas() {
  if (!under_way_.valid()) return;
  all_.abort();  // the run has failed: nobody is sure to come
  under_way_.wait();
}

const collective::Communicator& Replicas::communicator() const {
  return part_ ? static_cast<const collective::Communicator&>(*part_) : all_;
}

Source Replicas::source(Source whole) const {
  if (!are_apart()) return whole;
  const auto share = static_cast<std::uint64_t>(run_.training.global_batch),
             replicas = static_cast<std::uint64_t>(count_), number = static_cast<std::uint64_t>(number_);
  return [=, whole = std::move(whole)](std::span<const std::uint64_t> samples, std::span<std::int64_t> tokens,
                                       std::span<std::int64_t> targets, std::span<std::int64_t> documents) {
    std::vector<std::uint64_t> of_all;
    for (const std::uint64_t sample : samples)
      of_all.push_back((sample / share * replicas + number) * share + sample % share);
    whole(of_all, tokens, targets, documents);
  };
}

void Replicas::begin(Session& session) {
  if (!are_apart()) return;
  checkpoint::Progress own = session.progress();
  own.next_sample /= static_cast<std::uint64_t>(count_);
  session.go_on_from(own);
  outer_.clear();
  for (shard::FlatBucket& bucket : session.buckets()) {
    Outer& outer = outer_.emplace_back();
    outer.weights = session.shard_of(bucket).clone();
    outer.momentum = session.outer_momentum(bucket);
  }
}

std::vector<double> Replicas::sums(std::vector<double> values) const {
  tensor::Tensor cells = tensor::view_of(values.data(), {std::ssize(values)}, at::kDouble);
  everyone_.all_reduce_sum(cells);
  return values;
}

void Replicas::exchange(Session& session, std::int64_t step, bool waits) {
  if (under_way_.valid()) finish(session);
  exchanged_after_ = begun_after_ = step;
  for (std::size_t i = 0; i < outer_.size(); ++i) {
    outer_[i].begun_with = session.shard_of(session.buckets()[i]).clone();
    outer_[i].moved = outer_[i].weights.sub(outer_[i].begun_with);
  }
  // A bucket after the other: slices of the exchange.
  const auto reduce = [this] {
    for (Outer& outer : outer_) {
      counterparts_.all_reduce_sum(outer.moved);
      outer.moved.div_(static_cast<double>(count_));
    }
  };
  if (waits || training_.outer_delay == 0) {
    under_way_ = std::async(std::launch::deferred, reduce);
    return finish(session);
  }
  under_way_ = std::async(std::launch::async, [reduce, account = tensor::Account::current()] {
    const tensor::AccountScope of_rank(account);
    tensor::set_threads(1);
    reduce();
  });
}

void Replicas::after_step(Session& session, std::int64_t step, bool are_looked_at) {
  if (under_way_.valid() && step == begun_after_ + training_.outer_delay) finish(session);
  if (are_apart() && are_looked_at) exchange(session, step, true);
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

void Replicas::finish(Session& session) {
  under_way_.get();
  for (std::size_t i = 0; i < outer_.size(); ++i) {
    const shard::FlatBucket& bucket = session.buckets()[i];
    Outer& outer = outer_[i];
    step_outside(outer);
    const auto kept = session.kept(bucket);
    tensor::Tensor own = kept.front().flat;
    if (begun_after_ == session.progress().step)
      own.copy_(outer.weights);
    else
      own.add_(outer.weights.sub(outer.begun_with));
    session.put_back(bucket, kept);
    outer.begun_with = outer.moved = tensor::Tensor();
  }
}

std::vector<MovedAlong> Replicas::take_moved() {
  const auto now = counterparts_.tally().volume(CallKind::all_reduce);
  const auto since = now - told_;
  told_ = now;
  if (since.calls == 0) return {};
  return {{"replicas", collective::word(CallKind::all_reduce), since.calls, since.bytes,
           collective::sent_bytes(CallKind::all_reduce, since.bytes, count_)}};
}

}  // namespace tessera::train
