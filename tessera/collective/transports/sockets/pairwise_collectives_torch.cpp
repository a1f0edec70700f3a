#include "tessera/collective/transports/sockets/pairwise_collectives.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/maximum_ops.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace tessera::collective {

namespace {

using at::Tensor;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// What is received of a share at a time, while the slice before it is summed: bounds the memory, and stays in
// the cache.
constexpr std::int64_t kSliceBytes = std::int64_t{1} << 20;

struct Share {
  std::int64_t begin = 0, count = 0;
  Share slice(std::int64_t first, std::int64_t most) const {
    const std::int64_t start = std::min(first, count);
    return {begin + start, std::min(most, count - start)};
  }
  Tensor of(const Tensor& flat) const { return flat.narrow(0, begin, count); }
};

Share share_of(std::int64_t elements, int member, int size) {
  const std::int64_t begin = elements * member / size;
  return {begin, elements * (member + 1) / size - begin};
}

bool is_narrow(const Tensor& t) { return t.scalar_type() == at::kBFloat16 || t.scalar_type() == at::kHalf; }

class Pairwise {
 public:
  Pairwise(c10d::Backend& backend, const Tensor& in)
      : backend_(backend), self_(backend.getRank()), size_(backend.getSize()), in_(in) {}

  // out = this member's share of what all have there, combined; may be that share of `in` itself.
  void reduce(const Tensor& out, Combine how) {
    const Share own = share_of(in_.numel(), self_, size_);
    const std::int64_t step = std::max<std::int64_t>(1, kSliceBytes / in_.element_size());
    const std::int64_t most = share_of(in_.numel(), size_ - 1, size_).count;  // the last share is a largest
    for (auto& slot : slots_)
      slot.parts = in_.new_empty({size_, std::min(step, std::max<std::int64_t>(1, most))});
    start(slots_[0], 0, step);
    for (std::int64_t first = 0, turn = 0; first < most; first += step, ++turn) {
      Slot& now = slots_[turn % 2];
      if (first + step < most) start(slots_[(turn + 1) % 2], first + step, step);
      finish(now.receives);
      const Share slice = own.slice(first, step);
      if (slice.count > 0) combine(now, slice, out.narrow(0, slice.begin - own.begin, slice.count), how);
      finish(now.sends);
    }
  }

  // Everyone's share of `flat` becomes what its owner has there.
  void gather(const Tensor& flat) {
    std::vector<WorkPtr> works;
    for_each_peer([&](int peer) {
      receive(works, share_of(flat.numel(), peer, size_).of(flat), peer);
      send(works, share_of(flat.numel(), self_, size_).of(flat), peer);
    });
    finish(works);
  }

  // The root's share for each member goes to that member.
  void scatter(const Tensor& flat, int root) {
    std::vector<WorkPtr> works;
    if (self_ != root) receive(works, share_of(flat.numel(), self_, size_).of(flat), root);
    for_each_peer([&](int peer) {
      if (self_ == root) send(works, share_of(flat.numel(), peer, size_).of(flat), peer);
    });
    finish(works);
  }

  // `in` in shares of these rows for the members, `out` in shares of those from them.
  void all_to_all(const Tensor& out, std::span<const std::int64_t> out_rows,
                  std::span<const std::int64_t> in_rows) {
    std::vector<WorkPtr> works;
    const auto part = [](const Tensor& whole, std::span<const std::int64_t> rows, int member) {
      const auto before = rows.begin() + member;
      return whole.narrow(0, std::accumulate(rows.begin(), before, std::int64_t{0}), *before);
    };
    for_each_peer([&](int peer) { receive(works, part(out, out_rows, peer), peer); });
    for_each_peer([&](int peer) { send(works, part(in_, in_rows, peer), peer); });
    part(out, out_rows, self_).copy_(part(in_, in_rows, self_));
    finish(works);
  }

 private:
  struct Slot {
    Tensor parts;  // a row for each member
    std::vector<WorkPtr> receives, sends;
  };

  // Each begins with another peer, so that not all send to the same one.
  template <typename Body>
  void for_each_peer(Body body) const {
    for (int hop = 1; hop < size_; ++hop) body((self_ + hop) % size_);
  }

  void send(std::vector<WorkPtr>& works, const Tensor& t, int peer) {
    std::vector<Tensor> tensors{t};
    if (t.numel() > 0) works.push_back(backend_.send(tensors, peer, kPairwiseTag));
  }
  void receive(std::vector<WorkPtr>& works, const Tensor& t, int peer) {
    std::vector<Tensor> tensors{t};
    if (t.numel() > 0) works.push_back(backend_.recv(tensors, peer, kPairwiseTag));
  }
  static void finish(std::vector<WorkPtr>& works) {
    for (auto& work : works) work->wait();
    works.clear();
  }

  void start(Slot& slot, std::int64_t first, std::int64_t step) {
    const std::int64_t mine = share_of(in_.numel(), self_, size_).slice(first, step).count;
    for_each_peer([&](int peer) { receive(slot.receives, slot.parts[peer].narrow(0, 0, mine), peer); });
    for_each_peer([&](int peer) {
      send(slot.sends, share_of(in_.numel(), peer, size_).slice(first, step).of(in_), peer);
    });
  }

  // In the order of ranks. Half-width floats are combined in fp32 and rounded once.
  void combine(const Slot& slot, const Share& slice, const Tensor& out, Combine how) const {
    const auto part = [&](int member) {
      const Tensor t = member == self_ ? slice.of(in_) : slot.parts[member].narrow(0, 0, slice.count);
      return is_narrow(t) ? t.to(at::kFloat) : t;
    };
    Tensor total = part(0);
    for (int member = 1; member < size_; ++member) {
      const Tensor next = part(member);
      Tensor into = member + 1 == size_ && !is_narrow(out) ? out : member == 1 && self_ == 0 ? next : total;
      total = how == Combine::sum ? at::_ops::add_out::call(total, next, 1, into)
                                  : at::_ops::maximum_out::call(total, next, into);
    }
    if (is_narrow(out)) out.copy_(total);
  }

  c10d::Backend& backend_;
  const int self_, size_;
  const Tensor in_;  // flat
  std::array<Slot, 2> slots_;
};

Share own_share(const c10d::Backend& backend, const Tensor& flat) {
  return share_of(flat.numel(), backend.getRank(), backend.getSize());
}

}  // namespace

void reduce_scatter_by_pairs(c10d::Backend& backend, Tensor& out, const Tensor& in, Combine how) {
  Pairwise(backend, in.view({-1})).reduce(out.view({-1}), how);
}

void all_reduce_by_pairs(c10d::Backend& backend, Tensor& t, Combine how) {
  const Tensor flat = t.view({-1});
  Pairwise exchange(backend, flat);
  exchange.reduce(own_share(backend, flat).of(flat), how);
  exchange.gather(flat);
}

void all_gather_by_pairs(c10d::Backend& backend, Tensor& out, const Tensor& in) {
  const Tensor flat = out.view({-1}), own = own_share(backend, flat).of(flat);
  if (own.const_data_ptr() != in.const_data_ptr()) own.copy_(in.view({-1}));
  Pairwise(backend, flat).gather(flat);
}

void all_to_all_by_pairs(c10d::Backend& backend, Tensor& out, const Tensor& in,
                         std::span<const std::int64_t> out_rows, std::span<const std::int64_t> in_rows) {
  Pairwise(backend, in).all_to_all(out, out_rows, in_rows);
}

void broadcast_by_pairs(c10d::Backend& backend, Tensor& t, int root) {
  const Tensor flat = t.view({-1});
  Pairwise exchange(backend, flat);
  exchange.scatter(flat, root);
  exchange.gather(flat);
}

}  // namespace tessera::collective
