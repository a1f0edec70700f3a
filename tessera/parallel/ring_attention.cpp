#include "tessera/parallel/ring_attention.hpp"

#include <functional>
#include <optional>

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
      : arriving_(tensor::empty(t.sizes(), t.scalar_type(), t.device())),
        wait_(ring.shift(t, (ring.rank() + 1) % ring.size(), arriving_,
                         (ring.rank() + ring.size() - 1) % ring.size(), kTag)) {}
  Tensor arrived() {
    wait_();
    return arriving_;
  }

 private:
  Tensor arriving_;
  std::function<void()> wait_;
};

// The part of [B,N,S,...] at some samples and positions.
Tensor part(const Tensor& t_BNSx, const Range& samples, const Range& positions) {
  return t_BNSx.narrow(0, samples.first, samples.count).narrow(2, positions.first, positions.count);
}

Heads part(const Heads& heads, const DocumentBlock& block) {
  return {part(heads.q, block.samples, block.queries), part(heads.k, block.samples, block.keys),
          part(heads.v, block.samples, block.keys)};
}

Block part(const Block& row, const DocumentBlock& block) {
  return {part(row.out_BNQD, block.samples, block.queries), part(row.lse_BNQ, block.samples, block.queries)};
}

// As the kernels lay out what they return.
Tensor empty_heads(const Tensor& like_BNSD, at::ScalarType dtype) {
  const auto s = like_BNSD.sizes();
  return tensor::empty({s[0], s[2], s[1], s[3]}, dtype, like_BNSD.device()).transpose(1, 2);
}

DocumentBlocks blocks_of(const Heads& heads, const Group& ring, const Documents& documents) {
  return {documents, heads.q.size(0), heads.q.size(2), ring.size(), ring.rank()};
}

// Attention to the place's own keys. A query sees itself: afterwards each row has a key.
Block attend_own(const Heads& heads, const std::vector<DocumentBlock>& blocks, at::ScalarType dtype) {
  if (blocks.size() == 1) {  // of all samples and queries
    const Block row = attend_block(heads, blocks[0].causal);
    return {row.out_BNQD.to(dtype), row.lse_BNQ};
  }
  const auto s = heads.q.sizes();
  const Block row{empty_heads(heads.q, dtype),
                  tensor::empty({s[0], s[1], s[2]}, tensor::wide(heads.q.scalar_type()), heads.q.device())};
  for (const DocumentBlock& block : blocks) {
    const Block found = attend_block(part(heads, block), block.causal), place = part(row, block);
    place.out_BNQD.copy_(found.out_BNQD);
    place.lse_BNQ.copy_(found.lse_BNQ);
  }
  return row;
}

// The same backward, where there are no other keys.
Heads attend_own_backward(const Tensor& d_out_BNQD, const Heads& heads, const Block& row,
                          const std::vector<DocumentBlock>& blocks) {
  if (blocks.size() == 1) return attend_block_backward(d_out_BNQD, heads, row, blocks[0].causal);
  const auto dtype = heads.q.scalar_type();
  const Heads d{empty_heads(heads.q, dtype), empty_heads(heads.k, dtype), empty_heads(heads.v, dtype)};
  for (const DocumentBlock& block : blocks) {
    const Heads found = attend_block_backward(part(d_out_BNQD, block.samples, block.queries),
                                              part(heads, block), part(row, block), block.causal);
    const Heads place = part(d, block);
    place.q.copy_(found.q);
    place.k.copy_(found.k);
    place.v.copy_(found.v);
  }
  return d;
}

// The place whose keys are here after so many steps.
int place_after(int steps, const Group& ring) { return (ring.rank() + ring.size() - steps) % ring.size(); }

}  // namespace

Block ring_attention(const Heads& heads, const Group& ring, const Documents& documents) {
  const DocumentBlocks blocks = blocks_of(heads, ring, documents);
  const auto dtype = heads.q.scalar_type();
  if (ring.size() == 1) return attend_own(heads, blocks.with_keys_of(0), dtype);
  Tensor kv = joined(heads.k, heads.v);
  std::optional<Shift> keys(std::in_place, kv, ring);
  const Block row =
      attend_own({heads.q, kv[0], kv[1]}, blocks.with_keys_of(ring.rank()), tensor::wide(dtype));
  for (int step = 1; step < ring.size(); ++step) {
    kv = keys->arrived();
    if (step + 1 < ring.size()) keys.emplace(kv, ring);
    for (const DocumentBlock& block : blocks.with_keys_of(place_after(step, ring)))
      merge_block(part(row, block), attend_block(part({heads.q, kv[0], kv[1]}, block), block.causal));
  }
  return {row.out_BNQD.to(dtype), row.lse_BNQ};
}

Heads ring_attention_backward(const Tensor& d_out_BNQD, const Heads& heads, const Block& row,
                              const Group& ring, const Documents& documents) {
  const DocumentBlocks blocks = blocks_of(heads, ring, documents);
  if (ring.size() == 1) return attend_own_backward(d_out_BNQD, heads, row, blocks.with_keys_of(0));
  const auto wide = tensor::wide(heads.q.scalar_type());
  Tensor kv = joined(heads.k, heads.v);
  Tensor d_q = tensor::zeros(heads.q.sizes(), wide, kv.device());
  Tensor own = tensor::zeros(kv.sizes(), wide, kv.device());
  std::optional<Shift> keys, gradients;
  for (int step = 0; step < ring.size(); ++step) {
    if (step > 0) kv = keys->arrived();
    if (step + 1 < ring.size()) keys.emplace(kv, ring);
    const auto here = blocks.with_keys_of(place_after(step, ring));
    std::vector<Heads> found;
    for (const DocumentBlock& block : here)
      found.push_back(attend_block_backward(part(d_out_BNQD, block.samples, block.queries),
                                            part({heads.q, kv[0], kv[1]}, block), part(row, block),
                                            block.causal));
    // The gradients of what came from another place follow it, one place behind; the next place is the first
    // to add.
    Tensor d_kv = step == 0   ? own
                  : step == 1 ? tensor::zeros(kv.sizes(), wide, kv.device())
                              : gradients->arrived();
    for (std::size_t i = 0; i < here.size(); ++i) {
      const Heads d = part({d_q, d_kv[0], d_kv[1]}, here[i]);
      d.q.add_(found[i].q);
      d.k.add_(found[i].k);
      d.v.add_(found[i].v);
    }
    if (step > 0) gradients.emplace(d_kv, ring);
  }
  own.add_(gradients->arrived());
  return {d_q, own[0], own[1]};
}

}  // namespace tessera::parallel
