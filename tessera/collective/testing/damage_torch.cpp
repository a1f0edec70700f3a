#include <torch/csrc/autograd/graph_task.h>

#include <atomic>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "tessera/collective/link.hpp"
#include "tessera/collective/testing/wrongly.hpp"

namespace tessera::collective {
namespace {

using at::Tensor;

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Passes calls on to the backend of a sound group, but for those that are meant by the damage.
class DamagedBackend final : public c10d::Backend {
 public:
  DamagedBackend(const Group& sound, const Damage& damage, const Group& other)
      : Backend(sound.rank(), sound.size()), sound_(sound), other_(other), damage_(damage) {}

  const std::string getBackendName() const override { return "damaged"; }

  WorkPtr allreduce(std::vector<Tensor>& tensors, const c10d::AllreduceOptions& options) override {
    const bool is_maximum = options.reduceOp == c10d::ReduceOp::MAX;
    if (is_meant(CallKind::all_reduce)) return wrongly().all_reduce(tensors[0], is_maximum), done_work();
    return backend().allreduce(tensors, options);
  }
  WorkPtr _allgather_base(Tensor& out, Tensor& in, const c10d::AllgatherOptions& options) override {
    if (is_meant(CallKind::all_gather)) return wrongly().all_gather(out, in), done_work();
    return backend()._allgather_base(out, in, options);
  }
  WorkPtr _reduce_scatter_base(Tensor& out, Tensor& in, const c10d::ReduceScatterOptions& options) override {
    if (is_meant(CallKind::reduce_scatter)) return wrongly().reduce_scatter_sum(out, in), done_work();
    return backend()._reduce_scatter_base(out, in, options);
  }
  WorkPtr alltoall_base(Tensor& out, Tensor& in, std::vector<std::int64_t>& out_rows,
                        std::vector<std::int64_t>& in_rows, const c10d::AllToAllOptions& options) override {
    if (is_meant(CallKind::all_to_all)) return wrongly().all_to_all(out, in, out_rows, in_rows), done_work();
    return backend().alltoall_base(out, in, out_rows, in_rows, options);
  }
  WorkPtr broadcast(std::vector<Tensor>& tensors, const c10d::BroadcastOptions& options) override {
    const int root = static_cast<int>(options.rootRank);
    if (is_meant(CallKind::broadcast)) return wrongly().broadcast(tensors[0], root), done_work();
    return backend().broadcast(tensors, options);
  }
  WorkPtr send(std::vector<Tensor>& tensors, int to, int tag) override {
    if (is_meant(CallKind::send)) return wrongly().hand_over(tensors[0], to, tag), done_work();
    return backend().send(tensors, to, tag);
  }
  WorkPtr recv(std::vector<Tensor>& tensors, int from, int tag) override {
    return backend().recv(tensors, from, tag);
  }
  WorkPtr barrier(const c10d::BarrierOptions& options) override { return backend().barrier(options); }

 private:
  bool is_meant(CallKind kind) {
    const auto direction =
        torch::autograd::get_current_graph_task_id() < 0 ? CallDirection::forward : CallDirection::backward;
    if (damage_.kind != kind || damage_.direction != direction) return false;
    const std::int64_t index = num_calls_++;
    return !damage_.only || *damage_.only == index;
  }
  Wrongly wrongly() const { return {sound_, other_, damage_.harm}; }
  c10d::Backend& backend() const { return *sound_.link()->backend; }

  const Group sound_, other_;
  const Damage damage_;
  std::atomic<std::int64_t> num_calls_ = 0;  // of those that are meant
};

}  // namespace

const char* word(Harm harm) {
  switch (harm) {
    case Harm::skipped:
      return "skipped";
    case Harm::twice:
      return "twice";
    case Harm::scaled:
      return "scaled";
    case Harm::elsewhere:
      return "elsewhere";
  }
  return "?";
}

Group damaged(const Group& group, const Damage& damage, const Group& other) {
  const auto link = std::make_shared<Link>();
  link->ranks = group.ranks();
  link->rank = group.rank();
  link->backend = c10::make_intrusive<DamagedBackend>(Group(group.link()), damage, other);
  return Group(link);
}

}  // namespace tessera::collective
