#include "tessera/collective/testing/wrongly.hpp"

#include "tessera/base/error.hpp"
#include "tessera/collective/rows.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::collective {
namespace {

using at::Tensor;

// `count` parts of as many elements as `part` has, those of `whole` taken round and round.
Tensor in_parts(const Tensor& whole, std::int64_t part_elements, int count) {
  const Tensor parts = whole.reshape({-1, part_elements});
  Tensor out = parts.new_empty({count, part_elements});
  for (int i = 0; i < count; ++i) out.select(0, i).copy_(parts.select(0, i % parts.size(0)));
  return out;
}

// So many elements, those of `given` taken round and round; zeros if there are none.
Tensor filled(const Tensor& given, std::int64_t elements) {
  if (given.numel() == 0) return given.new_zeros({elements});
  return given.repeat({elements / given.numel() + 1}).narrow(0, 0, elements);
}

Tensor own_part_of(const Tensor& whole, const Tensor& part, const Group& group) {
  return whole.reshape({group.size(), -1}).select(0, group.rank()).reshape(part.sizes());
}

Tensor flat(const Tensor& t) { return t.detach().contiguous().reshape({-1}); }

}  // namespace

void Wrongly::all_reduce(Tensor& t, bool is_maximum) const {
  const auto reduce = [&](const Group& over) {
    is_maximum ? over.all_reduce_max(t) : over.all_reduce_sum(t);
  };
  if (harm == Harm::skipped) return;
  if (harm == Harm::elsewhere) return reduce(other);
  reduce(group);
  if (harm == Harm::twice) reduce(group);
  if (harm == Harm::scaled) t.detach().mul_(group.size());
}

void Wrongly::all_gather(Tensor& out, const Tensor& in) const {
  if (harm == Harm::skipped) {
    out.detach().copy_(in_parts(flat(in), in.numel(), group.size()).reshape(out.sizes()));
  } else if (harm == Harm::elsewhere) {
    Tensor gathered = in.new_empty({other.size() * in.numel()});
    other.all_gather(gathered, flat(in));
    out.detach().copy_(in_parts(gathered, in.numel(), group.size()).reshape(out.sizes()));
  } else {
    group.all_gather(out, in);
    // What came out is whole on all members: gathered once more, everyone's own place has the same.
    if (harm == Harm::scaled) out.detach().mul_(group.size());
  }
}

void Wrongly::reduce_scatter_sum(Tensor& out, const Tensor& in) const {
  const auto scatter = [&](const Group& over, const Tensor& whole) {
    Tensor share = out.new_empty({out.numel()});
    over.reduce_scatter_sum(share, in_parts(flat(whole), out.numel(), over.size()));
    out.detach().copy_(share.reshape(out.sizes()));
  };
  if (harm == Harm::skipped) return void(out.detach().copy_(own_part_of(flat(in), out, group)));
  if (harm == Harm::elsewhere) return scatter(other, in);
  scatter(group, in);
  if (harm == Harm::twice) scatter(group, out);
  if (harm == Harm::scaled) out.detach().mul_(group.size());
}

void Wrongly::all_to_all(Tensor& out, const Tensor& in, std::span<const std::int64_t> out_rows,
                         std::span<const std::int64_t> in_rows) const {
  if (harm == Harm::skipped)
    return void(out.detach().copy_(filled(flat(in), out.numel()).reshape(out.sizes())));
  if (harm == Harm::elsewhere) {
    // Members of the other group first take each other's places; they may bring unequal numbers of rows.
    Tensor most = at::full({1}, in.numel(), in.options().dtype(at::kLong));
    other.all_reduce_max(most);
    const Tensor theirs = shifted(filled(flat(in), most.item<std::int64_t>()), other, 1);
    return group.all_to_all(out, filled(theirs, in.numel()).reshape(in.sizes()), out_rows, in_rows);
  }
  group.all_to_all(out, in, out_rows, in_rows);
  if (harm == Harm::scaled) return void(out.detach().mul_(group.size()));
  const Tensor once = filled(flat(out), in.numel()).reshape(in.sizes());
  group.all_to_all(out, once, out_rows, in_rows);
}

void Wrongly::broadcast(Tensor& t, int root) const {
  if (harm == Harm::skipped) return;
  if (harm == Harm::elsewhere) return other.broadcast(t, root % other.size());
  group.broadcast(t, root);
  if (harm == Harm::twice) group.broadcast(t, root);
  if (harm == Harm::scaled) t.detach().mul_(group.size());
}

void Wrongly::hand_over(const Tensor& t, int to, int tag) const {
  const auto changed = [&] {
    if (harm == Harm::skipped) return t.detach().clone().zero_();
    if (harm == Harm::scaled) return t.detach().mul(group.size());
    if (harm == Harm::elsewhere) return shifted(t.detach(), other, 1);
    return t;
  };
  const Tensor sent = changed();
  group.hand_over(sent, to, tag);
  if (harm == Harm::twice) group.hand_over(sent, to, tag);
}

}  // namespace tessera::collective
