#include "tessera/parallel/ring_attention.hpp"

#include <algorithm>
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

Tensor turned(const Tensor& t_BNSx, const DocumentBlock& block) {
  return block.reversed ? t_BNSx.flip({2}) : t_BNSx;
}
Heads turned(const Heads& heads, const DocumentBlock& block) {
  return {turned(heads.q, block), turned(heads.k, block), turned(heads.v, block)};
}
Block turned(const Block& row, const DocumentBlock& block) {
  return {turned(row.out_BNQD, block), turned(row.lse_BNQ, block)};
}

// Attention of a block of these heads, and its gradients.
Block attended(const Heads& heads, const DocumentBlock& block) {
  return turned(attend_block(turned(part(heads, block), block), block.causal), block);
}
Heads attended_backward(const Tensor& d_out_BNQD, const Heads& heads, const Block& row,
                        const DocumentBlock& block) {
  const Tensor d_out = turned(part(d_out_BNQD, block.samples, block.queries), block);
  return turned(attend_block_backward(d_out, turned(part(heads, block), block),
                                      turned(part(row, block), block), block.causal),
                block);
}

bool merges(const std::vector<DocumentBlock>& blocks) {
  return !std::ranges::all_of(blocks, &DocumentBlock::begins_rows);
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
  const auto wide = tensor::wide(heads.q.scalar_type());
  const Block row{empty_heads(heads.q, merges(blocks) ? wide : dtype),
                  tensor::empty({s[0], s[1], s[2]}, wide, heads.q.device())};
  for (const DocumentBlock& block : blocks) {
    const Block found = attended(heads, block), place = part(row, block);
    if (!block.begins_rows()) {
      merge_block(place, found);
      continue;
    }
    place.out_BNQD.copy_(found.out_BNQD);
    place.lse_BNQ.copy_(found.lse_BNQ);
  }
  return {row.out_BNQD.to(dtype), row.lse_BNQ};
}

// The same backward, where there are no other keys.
Heads attend_own_backward(const Tensor& d_out_BNQD, const Heads& heads, const Block& row,
                          const std::vector<DocumentBlock>& blocks) {
  if (blocks.size() == 1) return attend_block_backward(d_out_BNQD, heads, row, blocks[0].causal);
  const auto dtype = heads.q.scalar_type();
  const bool adds = merges(blocks);
  const auto room = [&](const Tensor& like) {
    return adds ? empty_heads(like, tensor::wide(dtype)).zero_() : empty_heads(like, dtype);
  };
  const Heads d{room(heads.q), room(heads.k), room(heads.v)};
  const auto put = [&](const Tensor& place, const Tensor& found) {
    adds ? place.add_(found) : place.copy_(found);
  };
  for (const DocumentBlock& block : blocks) {
    const Heads found = attended_backward(d_out_BNQD, heads, row, block), place = part(d, block);
    put(place.q, found.q);
    put(place.k, found.k);
    put(place.v, found.v);
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
      merge_block(part(row, block), attended({heads.q, kv[0], kv[1]}, block));
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
      found.push_back(attended_backward(d_out_BNQD, {heads.q, kv[0], kv[1]}, row, block));
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
