#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "tessera/base/error.hpp"
#include "tessera/collective/link.hpp"
#include "tessera/tensor/device.hpp"
#include "tessera/tensor/tensor.hpp"
#include "tessera/testing/async_device/device.hpp"
#include "tessera/testing/async_device/ranks.hpp"

namespace tessera::async_device {
namespace {

using at::Tensor;
using collective::Group;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

std::string ranks_text(const std::vector<int>& ranks) {
  std::string out = " of ranks";
  for (const int rank : ranks) out += cat(" ", rank);
  return out;
}

// As NCCL's: whoever waits goes on at once, its stream later. The tensors are kept until then.
class IssuedWork final : public c10d::Work {
 public:
  IssuedWork(std::string what, Point done, c10::Device device, std::vector<Tensor> kept)
      : what_(std::move(what)), done_(std::move(done)), device_(device), kept_(std::move(kept)) {}
  ~IssuedWork() override { let_go(); }
  bool wait(std::chrono::milliseconds) override {
    if (!witness().omits(Omission::Kind::work_wait, what_)) witness().order(current_stream(device_), done_);
    let_go();
    return true;
  }
  bool isCompleted() override { return witness().has_passed(done_); }
  std::exception_ptr exception() const override {
    const Failure& failure = witness().failure();
    return failure.is_there() ? std::make_exception_ptr(DeviceFailed(failure.text())) : nullptr;
  }

 private:
  void let_go() {
    for (const Tensor& t : kept_)
      if (t.numel() > 0) witness().let_go(static_cast<const std::byte*>(t.data_ptr()));
    kept_.clear();
  }

  const std::string what_;
  const Point done_;
  const c10::Device device_;
  std::vector<Tensor> kept_;
};

// What is issued on the device is done by a group of threads, in tasks of the communicator's stream.
class IssuingBackend final : public c10d::Backend {
 public:
  IssuingBackend(Group group, c10::Device device, Stream& stream, std::string name)
      : Backend(group.rank(), group.size()),
        group_(std::move(group)),
        device_(device),
        stream_(stream),
        name_(std::move(name)) {}

  const std::string getBackendName() const override { return "async"; }

  WorkPtr allreduce(std::vector<Tensor>& tensors, const c10d::AllreduceOptions& options) override {
    const bool is_maximum = options.reduceOp == c10d::ReduceOp::MAX;
    return issue("all_reduce", {access_of(tensors[0], true)}, tensors,
                 [group = group_, t = on_cpu(tensors[0]), is_maximum]() mutable {
                   is_maximum ? group.all_reduce_max(t) : group.all_reduce_sum(t);
                 });
  }
  WorkPtr _allgather_base(Tensor& out, Tensor& in, const c10d::AllgatherOptions&) override {
    return issue("all_gather", {access_of(out, true), access_of(in, false)}, {out, in},
                 [group = group_, a = on_cpu(out), b = on_cpu(in)]() mutable { group.all_gather(a, b); });
  }
  WorkPtr _reduce_scatter_base(Tensor& out, Tensor& in, const c10d::ReduceScatterOptions&) override {
    return issue(
        "reduce_scatter", {access_of(out, true), access_of(in, false)}, {out, in},
        [group = group_, a = on_cpu(out), b = on_cpu(in)]() mutable { group.reduce_scatter_sum(a, b); });
  }
  WorkPtr alltoall_base(Tensor& out, Tensor& in, std::vector<std::int64_t>& out_rows,
                        std::vector<std::int64_t>& in_rows, const c10d::AllToAllOptions&) override {
    return issue("all_to_all", {access_of(out, true), access_of(in, false)}, {out, in},
                 [group = group_, a = on_cpu(out), b = on_cpu(in), out_rows, in_rows]() mutable {
                   group.all_to_all(a, b, out_rows, in_rows);
                 });
  }
  WorkPtr broadcast(std::vector<Tensor>& tensors, const c10d::BroadcastOptions& options) override {
    return issue("broadcast", {access_of(tensors[0], options.rootRank != rank_)}, tensors,
                 [group = group_, t = on_cpu(tensors[0]),
                  root = static_cast<int>(options.rootRank)]() mutable { group.broadcast(t, root); });
  }
  WorkPtr send(std::vector<Tensor>& tensors, int to, int) override {
    if (batch_) return batch_->sends.push_back({tensors[0], to}), nullptr;
    return exchange("send", {.sends = {{tensors[0], to}}});
  }
  WorkPtr recv(std::vector<Tensor>& tensors, int from, int) override {
    if (batch_) return batch_->receives.push_back({tensors[0], from}), nullptr;
    return exchange("receive", {.receives = {{tensors[0], from}}});
  }
  // What is sent and received between the two is one operation, which goes both ways at once.
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override { batch_.emplace(); }
  WorkPtr endCoalescing() override {
    const Batch batch = *std::exchange(batch_, std::nullopt);
    return exchange("shift", batch);
  }
  // The host waits, as with NCCL.
  WorkPtr barrier(const c10d::BarrierOptions&) override {
    witness().host_wait(
        witness().issue(stream_, "barrier" + name_, {}, [group = group_] { group.barrier(); }), "barrier");
    return collective::done_work();
  }

 private:
  static constexpr int kMessage = 0, kAnswer = 1;

  struct Message {
    Tensor t;
    int member;
  };
  struct Batch {
    std::vector<Message> sends, receives;
  };

  // Over when all is received, here and there.
  WorkPtr exchange(const char* what, const Batch& batch) {
    std::vector<Access> touched;
    std::vector<Tensor> tensors;
    Batch task;
    for (const auto& [t, to] : batch.sends) {
      touched.push_back(access_of(t, false));
      tensors.push_back(t);
      task.sends.push_back({on_cpu(t), to});
    }
    for (const auto& [t, from] : batch.receives) {
      touched.push_back(access_of(t, true));
      tensors.push_back(t);
      task.receives.push_back({on_cpu(t), from});
    }
    return issue(what, touched, tensors, [group = group_, task]() mutable {
      for (const auto& [t, to] : task.sends) group.hand_over(t, to, kMessage);
      for (auto& [t, from] : task.receives) {
        group.receive(t, from, kMessage);
        group.hand_over(tensor::zeros({1}, at::kFloat), from, kAnswer);
      }
      for (const auto& [t, to] : task.sends) {
        Tensor answer = tensor::zeros({1}, at::kFloat);
        group.receive(answer, to, kAnswer);
      }
    });
  }

  WorkPtr issue(const char* what, std::vector<Access> touched, std::vector<Tensor> tensors,
                std::function<void()> task) {
    Stream& caller = current_stream(device_);
    if (!witness().omits(Omission::Kind::issue_wait, what)) witness().order(stream_, witness().now(caller));
    if (witness().omits(Omission::Kind::kept_tensors, what)) tensors.clear();
    Point done = witness().issue(stream_, what + name_, touched, std::move(task), &caller);
    return c10::make_intrusive<IssuedWork>(what, std::move(done), device_, std::move(tensors));
  }

  const Group group_;
  const c10::Device device_;
  Stream& stream_;
  const std::string name_;
  std::optional<Batch> batch_;  // being put together
};

class DeviceCommunicator final : public collective::Communicator {
 public:
  DeviceCommunicator(const Communicator& threads, bool one_queue)
      : Communicator(threads.rank(), threads.size(),
                     c10::Device(kType, static_cast<c10::DeviceIndex>(threads.rank()))),
        threads_(threads),
        queue_(one_queue ? &witness().new_stream(threads.rank()) : nullptr) {}
  const Communicator& host() const override { return threads_; }

 private:
  std::vector<std::shared_ptr<collective::Link>> connect(
      const std::vector<std::vector<int>>& rank_lists) const override {
    const std::vector<Group> groups = collective::make_groups(threads_, rank_lists);
    std::vector<std::shared_ptr<collective::Link>> links;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      auto link = collective::make_link(rank_lists[i], rank());
      Stream& stream = queue_ ? *queue_ : witness().new_stream(rank());
      link->backend =
          c10::make_intrusive<IssuingBackend>(groups[i], device(), stream, ranks_text(rank_lists[i]));
      links.push_back(std::move(link));
    }
    return links;
  }

  const Communicator& threads_;
  Stream* const queue_;
};

// Notices when nothing goes on any more, and ends it.
class StuckAlarm {
 public:
  StuckAlarm(Witness& witness, double patience_seconds)
      : thread_([this, &witness, patience_seconds] { watch(witness, patience_seconds); }) {}
  ~StuckAlarm() {
    {
      const std::scoped_lock lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void watch(Witness& witness, double patience_seconds) {
    constexpr int kLooks = 20;
    const std::chrono::duration<double> look(patience_seconds / kLooks);
    std::uint64_t before = 0;
    int still = 0;
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, look, [&] { return ends_; })) {
      const std::uint64_t now = witness.num_done();
      const std::vector<std::string> busy = witness.busy();
      still = now == before && !busy.empty() ? still + 1 : 0;
      before = now;
      if (still >= kLooks)
        return witness.fail(
            cat("stuck: nothing has happened for ", patience_seconds, " s\n  ", tessera::join(busy, "\n  ")));
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;  // last
};

}  // namespace

void run_ranks(const RankOptions& options, int num_ranks,
               const std::function<void(const collective::Communicator&)>& body, Findings* found) {
  TESSERA_CHECK(num_ranks <= kMostDevices, num_ranks, " ranks, and ", kMostDevices, " devices at most");
  Devices devices(options.pace, options.omission);
  const StuckAlarm alarm(devices.witness(), options.patience_seconds);
  collective::run_ranks(num_ranks, [&](const collective::Communicator& threads) {
    const DeviceCommunicator communicator(threads, options.one_queue);
    tensor::use_device(communicator.device());
    body(communicator);
    devices.witness().finish(threads.rank());
  });
  const auto problems = devices.witness().problems();
  if (found) {
    found->problems = problems;
    found->num_omitted = devices.witness().num_omitted();
    found->counts.clear();
    for (int rank = 0; rank < num_ranks; ++rank) found->counts.push_back(devices.witness().counts(rank));
  }
  if (!problems.empty())
    throw Bug(
        cat(problems.size(), " problem(s) of order on the devices; the first: ", problems.begin()->first));
}

}  // namespace tessera::async_device
