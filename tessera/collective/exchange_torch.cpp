#include "tessera/collective/exchange.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/add_ops.h>

#include <algorithm>
#include <array>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "tessera/collective/link.hpp"

#include "tessera/base/error.hpp"  // last: LibTorch has a CHECK of its own

namespace tessera::collective {

namespace {

using at::Tensor;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// What is received of a share at a time, while the slice before it is summed: bounds the memory, and stays in the cache.
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

class Exchange {
 public:
  Exchange(const Link& link, const Tensor& in)
      : backend_(*link.backend), self_(link.rank), size_(static_cast<int>(link.ranks.size())), in_(in) {}

  // out = this member's share of the sum; may be that share of `in` itself.
  void reduce(const Tensor& out) {
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
      if (slice.count > 0) sum(now, slice, out.narrow(0, slice.begin - own.begin, slice.count));
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
    if (t.numel() > 0) works.push_back(backend_.send(tensors, peer, kExchangeTag));
  }
  void receive(std::vector<WorkPtr>& works, const Tensor& t, int peer) {
    std::vector<Tensor> tensors{t};
    if (t.numel() > 0) works.push_back(backend_.recv(tensors, peer, kExchangeTag));
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

  // In the order of ranks. Half-width floats are summed in fp32 and rounded once.
  void sum(const Slot& slot, const Share& slice, const Tensor& out) const {
    const auto part = [&](int member) {
      const Tensor t = member == self_ ? slice.of(in_) : slot.parts[member].narrow(0, 0, slice.count);
      return is_narrow(t) ? t.to(at::kFloat) : t;
    };
    Tensor total = part(0);
    for (int member = 1; member < size_; ++member) {
      const Tensor next = part(member);
      Tensor into = member + 1 == size_ && !is_narrow(out) ? out : member == 1 && self_ == 0 ? next : total;
      total = at::_ops::add_out::call(total, next, 1, into);
    }
    if (is_narrow(out)) out.copy_(total);
  }

  c10d::Backend& backend_;
  const int self_, size_;
  const Tensor in_;  // flat
  std::array<Slot, 2> slots_;
};

Share own_share(const Link& link, const Tensor& flat) {
  return share_of(flat.numel(), link.rank, static_cast<int>(link.ranks.size()));
}

}  // namespace

void reduce_scatter_by_exchange(const Link& link, Tensor& out, const Tensor& in) {
  Exchange(link, in.view({-1})).reduce(out.view({-1}));
}

void all_reduce_by_exchange(const Link& link, Tensor& t) {
  const Tensor flat = t.view({-1});
  Exchange exchange(link, flat);
  exchange.reduce(own_share(link, flat).of(flat));
  exchange.gather(flat);
}

void all_gather_by_exchange(const Link& link, Tensor& out, const Tensor& in) {
  const Tensor flat = out.view({-1}), own = own_share(link, flat).of(flat);
  if (own.const_data_ptr() != in.const_data_ptr()) own.copy_(in.view({-1}));
  Exchange(link, flat).gather(flat);
}

}  // namespace tessera::collective
