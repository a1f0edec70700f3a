#include "tessera/parallel/ring_attention.hpp"

#include <functional>
#include <limits>
#include <optional>

#include "tessera/base/error.hpp"
#include "tessera/program/ir/context_parallel.hpp"
#include "tessera/tensor/device.hpp"

namespace tessera::parallel {

namespace {

using collective::Group;

constexpr int kTag = 0;  // all that travels on this ring goes one way and arrives in order

// What travels: keys and values, or their gradients, as one message.
Tensor joined(const Tensor& k, const Tensor& v) {
  return tensor::concatenate({k.unsqueeze(0), v.unsqueeze(0)}, 0);
}

// Something on its way to the next place, while the like of it comes from the one before: always into memory
// of its own, because what came earlier may still be read, here or on its way.
class Shift {
 public:
  Shift(const Tensor& t, const Group& ring)
      : arriving_(tensor::empty(t.sizes(), t.scalar_type(), t.device())) {
    const int next = (ring.rank() + 1) % ring.size(),
              previous = (ring.rank() + ring.size() - 1) % ring.size();
    // Not all begin with the send: on a device it may last until the other side receives.
    const bool sends_first = ring.rank() % 2 == 1;
    if (sends_first) ring.hand_over(t, next, kTag);
    wait_ = ring.expect(arriving_, previous, kTag);
    if (!sends_first) ring.hand_over(t, next, kTag);
  }
  Tensor arrived() {
    wait_();
    return arriving_;
  }

 private:
  Tensor arriving_;
  std::function<void()> wait_;
};

// The part of (my queries) x (their keys) in which a query may see a key: without documents no mask is
// needed, because each place holds an early and a late chunk.
struct Region {
  std::int64_t first_query = 0, num_keys = 0;
  Sight sight;

  Tensor queries(const Tensor& t_BNSx) const {
    return t_BNSx.narrow(2, first_query, t_BNSx.size(2) - first_query);
  }
  Heads of(const Tensor& q, const Tensor& kv) const {
    return {queries(q), kv[0].narrow(2, 0, num_keys), kv[1].narrow(2, 0, num_keys)};
  }
};

class Regions {
 public:
  Regions(const Heads& heads, const Group& ring, const Documents& documents)
      : ring_(ring),
        positions_(heads.q.size(2)),
        dtype_(heads.q.scalar_type()),
        documents_BS_(documents.of_BS) {
    TESSERA_CHECK(ring.size() == 1 || positions_ % 2 == 0, "a ring place holds two chunks, not ", positions_,
                  " positions");
    if (!documents_BS_.defined()) return;
    TESSERA_CHECK(
        documents_BS_.size(0) == heads.q.size(0) && documents_BS_.size(1) == positions_ * ring.size(),
        "documents of ", documents_BS_.size(0), " x ", documents_BS_.size(1), " positions for ",
        heads.q.size(0), " x ", positions_ * ring.size());
    own_BS_ = documents_at(ring.rank());
  }

  // Nothing: no query sees a key of that place. An accelerator's host does not ask, for it would have to
  // wait.
  std::optional<Region> with_keys_of(int place) const {
    Region region{0, positions_, {place == ring_.rank(), {}}};
    if (place < ring_.rank()) region.num_keys = positions_ / 2;
    if (place > ring_.rank()) region.first_query = positions_ / 2;
    if (!documents_BS_.defined()) return region;
    const Tensor keys_B1C = documents_at(place).narrow(1, 0, region.num_keys).unsqueeze(1);
    const Tensor queries_BQ1 =
        own_BS_.narrow(1, region.first_query, positions_ - region.first_query).unsqueeze(2);
    Tensor seen_BQC = queries_BQ1.eq(keys_B1C);
    if (documents_BS_.is_cpu() && seen_BQC.all().item<bool>()) return region;
    if (region.sight.causal) seen_BQC = seen_BQC.tril();
    if (documents_BS_.is_cpu() && !seen_BQC.any().item<bool>()) return std::nullopt;
    region.sight.causal = false;
    const Tensor unseen = seen_BQC.logical_not().unsqueeze(1);
    region.sight.added_B1QC = tensor::zeros(unseen.sizes(), dtype_, unseen.device())
                                  .masked_fill_(unseen, -std::numeric_limits<double>::infinity());
    return region;
  }

 private:
  // Documents of what a place holds.
  Tensor documents_at(int place) const {
    auto positions = program::context_positions(documents_BS_.size(1), {ring_.size(), 1}, {place, 0});
    const Tensor index =
        tensor::view_of(positions.data(), {static_cast<std::int64_t>(positions.size())}, at::kLong);
    return documents_BS_.index_select(1, tensor::on_device(index, documents_BS_.device()));
  }

  const Group& ring_;
  std::int64_t positions_;
  at::ScalarType dtype_;
  Tensor documents_BS_, own_BS_;
};

}  // namespace

Block ring_attention(const Heads& heads, const Group& ring, const Documents& documents) {
  const Regions regions(heads, ring, documents);
  if (ring.size() == 1) return attend_block(heads, regions.with_keys_of(0)->sight);
  const auto dtype = heads.q.scalar_type();
  Tensor kv = joined(heads.k, heads.v);
  std::optional<Shift> keys;
  Block row;
  for (int step = 0; step < ring.size(); ++step) {
    if (step > 0) kv = keys->arrived();
    if (step + 1 < ring.size()) keys.emplace(kv, ring);
    const auto region = regions.with_keys_of((ring.rank() + ring.size() - step) % ring.size());
    if (!region) continue;
    const Block block = attend_block(region->of(heads.q, kv), region->sight);
    if (step == 0)  // a query sees itself: from here on each row has a key
      row = {block.out_BNQD.to(tensor::wide(dtype)), block.lse_BNQ};
    else
      merge_block(row, block, region->first_query);
  }
  return {row.out_BNQD.to(dtype), row.lse_BNQ};
}

Heads ring_attention_backward(const Tensor& d_out_BNQD, const Heads& heads, const Block& row,
                              const Group& ring, const Documents& documents) {
  const Regions regions(heads, ring, documents);
  const auto dtype = heads.q.scalar_type(), wide = tensor::wide(dtype);
  if (ring.size() == 1) return attend_block_backward(d_out_BNQD, heads, row, regions.with_keys_of(0)->sight);
  Tensor kv = joined(heads.k, heads.v);
  Tensor d_q = tensor::zeros(heads.q.sizes(), wide, kv.device());
  Tensor own = tensor::zeros(kv.sizes(), wide, kv.device());
  std::optional<Shift> keys, gradients;
  for (int step = 0; step < ring.size(); ++step) {
    if (step > 0) kv = keys->arrived();
    if (step + 1 < ring.size()) keys.emplace(kv, ring);
    const auto region = regions.with_keys_of((ring.rank() + ring.size() - step) % ring.size());
    Heads part;
    if (region)
      part =
          attend_block_backward(region->queries(d_out_BNQD), region->of(heads.q, kv),
                                {region->queries(row.out_BNQD), region->queries(row.lse_BNQ)}, region->sight);
    // The gradients of what came from another place follow it, one place behind; the next place is the first
    // to add.
    Tensor d_kv = step == 0   ? own
                  : step == 1 ? tensor::zeros(kv.sizes(), wide, kv.device())
                              : gradients->arrived();
    if (region) {
      region->queries(d_q).add_(part.q);
      d_kv[0].narrow(2, 0, region->num_keys).add_(part.k);
      d_kv[1].narrow(2, 0, region->num_keys).add_(part.v);
    }
    if (step > 0) gradients.emplace(d_kv, ring);
  }
  own.add_(gradients->arrived());
  return {d_q, own[0], own[1]};
}

}  // namespace tessera::parallel
