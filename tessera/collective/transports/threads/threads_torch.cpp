#include <future>
#include <system_error>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "tessera/base/error.hpp"
#include "tessera/collective/link.hpp"
#include "tessera/collective/transports/threads/thread_rendezvous.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/tensor/account.hpp"

namespace tessera::collective {
namespace {

using at::Tensor;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Nothing moves before the wait.
class ReceiveWork final : public c10d::Work {
 public:
  ReceiveWork(std::shared_ptr<ThreadRendezvous> rendezvous, Tensor into, int from, int to, int tag)
      : rendezvous_(std::move(rendezvous)), into_(std::move(into)), from_(from), to_(to), tag_(tag) {}
  bool wait(std::chrono::milliseconds) override {
    const Tensor sent = rendezvous_->take(from_, to_, tag_);
    TESSERA_CHECK(sent.sizes() == into_.sizes() && sent.scalar_type() == into_.scalar_type(),
                  "what is received differs in shape or dtype from what was sent");
    into_.copy_(sent);
    return true;
  }

 private:
  std::shared_ptr<ThreadRendezvous> rendezvous_;
  Tensor into_;
  int from_, to_, tag_;
};

// Half-width floats are summed in fp32 and rounded once.
at::ScalarType sum_type(const Tensor& t) {
  const bool narrow = t.scalar_type() == at::kBFloat16 || t.scalar_type() == at::kHalf;
  return narrow ? at::kFloat : t.scalar_type();
}

class ThreadBackend final : public c10d::Backend {
 public:
  ThreadBackend(std::shared_ptr<ThreadRendezvous> rendezvous, int position)
      : Backend(position, rendezvous->size()),
        rendezvous_(std::move(rendezvous)),
        self_(static_cast<std::size_t>(position)) {}

  const std::string getBackendName() const override { return "threads"; }

  WorkPtr allreduce(std::vector<Tensor>& tensors, const c10d::AllreduceOptions& options) override {
    const char* what = "all_reduce";
    Tensor flat = tensors[0].view({-1});
    rendezvous_->inputs[self_] = flat;
    rendezvous_->meet(rank_, what);
    // Only this member reads its share of all inputs, so the sum may lie in its own.
    const auto [first, count] = share(flat.numel(), rank_);
    reduce(flat.narrow(0, first, count), first, options.reduceOp);
    rendezvous_->meet(rank_, what);
    for (int member = 0; member < size_; ++member) {
      if (member == rank_) continue;
      const auto [begin, length] = share(flat.numel(), member);
      flat.narrow(0, begin, length)
          .copy_(rendezvous_->inputs[static_cast<std::size_t>(member)].narrow(0, begin, length));
    }
    finish(what);
    return done_work();
  }

  WorkPtr _reduce_scatter_base(Tensor& out, Tensor& in, const c10d::ReduceScatterOptions& options) override {
    const char* what = "reduce_scatter";
    rendezvous_->inputs[self_] = in.view({-1});
    rendezvous_->meet(rank_, what);
    reduce(out.view({-1}), rank_ * out.numel(), options.reduceOp);
    finish(what);
    return done_work();
  }

  WorkPtr _allgather_base(Tensor& out, Tensor& in, const c10d::AllgatherOptions&) override {
    const char* what = "all_gather";
    rendezvous_->inputs[self_] = in.view({-1});
    rendezvous_->meet(rank_, what);
    Tensor flat = out.view({-1});
    for (int member = 0; member < size_; ++member) {
      Tensor place = flat.narrow(0, member * in.numel(), in.numel());
      const Tensor& theirs = rendezvous_->inputs[static_cast<std::size_t>(member)];
      if (place.const_data_ptr() != theirs.const_data_ptr()) place.copy_(theirs);  // its own may be in place
    }
    finish(what);
    return done_work();
  }

  WorkPtr alltoall_base(Tensor& out, Tensor& in, std::vector<std::int64_t>& out_rows,
                        std::vector<std::int64_t>& in_rows, const c10d::AllToAllOptions&) override {
    const char* what = "all_to_all";
    rendezvous_->inputs[self_] = in;
    rendezvous_->rows[self_] = in_rows;
    rendezvous_->meet(rank_, what);
    std::int64_t begin = 0;
    for (std::size_t member = 0; member < out_rows.size(); ++member) {
      const auto& theirs = rendezvous_->rows[member];
      TESSERA_CHECK(theirs[self_] == out_rows[member], "all_to_all: rank ", rendezvous_->ranks()[member],
                    " sends ", theirs[self_], " rows where ", out_rows[member], " are expected");
      std::int64_t skipped = 0;
      for (std::size_t before = 0; before < self_; ++before) skipped += theirs[before];
      out.narrow(0, begin, out_rows[member])
          .copy_(rendezvous_->inputs[member].narrow(0, skipped, out_rows[member]));
      begin += out_rows[member];
    }
    finish(what);
    return done_work();
  }

  WorkPtr broadcast(std::vector<Tensor>& tensors, const c10d::BroadcastOptions& options) override {
    const char* what = "broadcast";
    rendezvous_->inputs[self_] = tensors[0];
    rendezvous_->meet(rank_, what);
    if (rank_ != options.rootRank)
      tensors[0].copy_(rendezvous_->inputs[static_cast<std::size_t>(options.rootRank)]);
    finish(what);
    return done_work();
  }

  // What is sent is nobody's to change any more.
  WorkPtr send(std::vector<Tensor>& tensors, int to, int tag) override {
    rendezvous_->post(rank_, to, tag, tensors[0]);
    return done_work();
  }

  WorkPtr recv(std::vector<Tensor>& tensors, int from, int tag) override {
    return c10::make_intrusive<ReceiveWork>(rendezvous_, tensors[0], from, rank_, tag);
  }

  WorkPtr barrier(const c10d::BarrierOptions&) override {
    rendezvous_->meet(rank_, "barrier");
    return done_work();
  }

 private:
  // The last meeting of an operation that reads inputs: afterwards nobody needs them.
  void finish(const char* what) {
    rendezvous_->meet(rank_, what);
    rendezvous_->inputs[self_] = Tensor();
  }

  struct Share {
    std::int64_t first, count;
  };
  // Which elements of `total` a member reduces; uneven where they don't divide.
  Share share(std::int64_t total, std::int64_t member) const {
    const std::int64_t first = total * member / size_;
    return {first, total * (member + 1) / size_ - first};
  }

  // out = the members' elements from `first` on, combined in rank order: by pieces, which stay in the cache
  // and need little memory.
  void reduce(const Tensor& out, std::int64_t first, const c10d::ReduceOp& op) const {
    constexpr std::int64_t kPiece = 1 << 14;
    for (std::int64_t at = 0; at < out.numel(); at += kPiece) {
      const std::int64_t count = std::min(kPiece, out.numel() - at);
      out.narrow(0, at, count).copy_(reduced(first + at, count, op));
    }
  }

  // The members' elements [first, first + count), combined in rank order.
  Tensor reduced(std::int64_t first, std::int64_t count, const c10d::ReduceOp& op) const {
    const auto& inputs = rendezvous_->inputs;
    for (const auto& input : inputs)
      TESSERA_CHECK(
          input.numel() == inputs[self_].numel() && input.scalar_type() == inputs[self_].scalar_type(),
          "members reduce tensors that differ in size or dtype");
    Tensor sum = inputs[0].narrow(0, first, count).to(sum_type(inputs[0]), false, true);
    for (std::size_t member = 1; member < inputs.size(); ++member) {
      const Tensor next = inputs[member].narrow(0, first, count);
      if (op.op_ == c10d::ReduceOp::MAX)
        sum = sum.maximum(next.to(sum.scalar_type()));
      else
        sum.add_(next);
    }
    return sum;
  }

  std::shared_ptr<ThreadRendezvous> rendezvous_;
  std::size_t self_;
};

// Where the groups of one run_ranks meet.
class World {
 public:
  std::shared_ptr<ThreadRendezvous> rendezvous(const std::vector<int>& ranks, int num_made_before) {
    std::scoped_lock lock(mutex_);
    auto& rendezvous = meetings_[{ranks, num_made_before}];
    if (!rendezvous) {
      rendezvous = std::make_shared<ThreadRendezvous>(ranks);
      for (const int rank : departed_) rendezvous->leave(rank);
    }
    return rendezvous;
  }

  void leave(int rank) {
    std::scoped_lock lock(mutex_);
    departed_.push_back(rank);
    for (const auto& [key, rendezvous] : meetings_) rendezvous->leave(rank);
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::vector<int>, int>, std::shared_ptr<ThreadRendezvous>> meetings_;
  std::vector<int> departed_;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(World& world, int rank, int size) : Communicator(rank, size), world_(world) {}
  // The rank leaves early, so nobody waits for it, nor it for others in operations that they share.
  void abort() const override { world_.leave(rank()); }

 private:
  std::vector<std::shared_ptr<Link>> connect(const std::vector<std::vector<int>>& rank_lists) const override {
    std::vector<std::shared_ptr<Link>> links;
    for (const auto& ranks : rank_lists) {
      auto link = make_link(ranks, rank());
      link->backend =
          c10::make_intrusive<ThreadBackend>(world_.rendezvous(ranks, num_made_[ranks]++), link->rank);
      links.push_back(std::move(link));
    }
    return links;
  }

  World& world_;
  mutable std::map<std::vector<int>, int> num_made_;
};

}  // namespace

void run_ranks(int num_ranks, const std::function<void(const Communicator&)>& body) {
  World world;
  std::mutex mutex;
  std::exception_ptr first_error;
  std::promise<bool> start;
  const std::shared_future<bool> started = start.get_future().share();
  const auto run_rank = [&](int rank, const std::shared_future<bool>& all_are_there) {
    if (!all_are_there.get()) return;
    try {
      tensor::set_threads(1);
      const tensor::AccountScope of_rank{tensor::Account()};
      body(ThreadCommunicator(world, rank, num_ranks));
    } catch (...) {
      std::scoped_lock lock(mutex);
      if (!first_error) first_error = std::current_exception();
    }
    world.leave(rank);
  };
  std::vector<std::thread> threads;
  std::string failure;
  try {
    for (int rank = 0; rank < num_ranks; ++rank) threads.emplace_back(run_rank, rank, started);
  } catch (const std::system_error& error) {
    failure = error.what();
  }
  start.set_value(failure.empty());
  for (auto& thread : threads) thread.join();
  if (!failure.empty())
    throw UserError(cat("starting ", num_ranks, " ranks as threads failed at thread ", threads.size(), ": ",
                        failure, ". Use fewer ranks, or raise the system's limit of threads."));
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace tessera::collective
