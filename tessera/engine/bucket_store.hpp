// A rank's buckets: gathers, reductions, updates, and the ways out of memory and back. ZeRO is which of these
// ops a program has; nothing here knows its stage.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/bytes_moved.hpp"
#include "tessera/engine/parts.hpp"
#include "tessera/engine/server_exchange.hpp"
#include "tessera/engine/slot_memory.hpp"
#include "tessera/engine/thin_sum.hpp"

namespace tessera::engine {

// What `step` needs besides its bucket.
struct Update {
  double learning_rate = 0;
  std::int64_t count = 1;
  tensor::Tensor gradient_scale, skips;  // numbers on the device: a factor, and not 0 if nothing is updated
};

class BucketStore {
 public:
  BucketStore(const Parts& parts, const SlotMemory& slots);

  // By lanes, in the order the program allows.
  void gather(const program::Op& op);
  void reduce(const program::Op& op);
  void step(const program::Op& op, const Update& update);
  // Of Shard and State.
  void offload(const program::Op& op);
  void fetch(const program::Op& op);
  // The same of any other tensor.
  void put(const shard::OffloadKey& key, const tensor::Tensor& t);
  tensor::Tensor get(const shard::OffloadKey& key);
  void end(const program::Cell& cell);
  // The calling lane reads the weights of a segment's buckets.
  void read_weights(const program::Segment& segment);
  void read_weights_backward(const program::Segment& segment);
  // Weights are those of Ahead from here on, and those of Full again.
  void use_ahead(const program::Segment& segment);
  void use_full(const program::Segment& segment);
  // Before the first step: Ahead is what Full is.
  void copy_ahead(std::uint32_t item);
  // The op, of the calling lane, adds to the gradients of its segment's buckets.
  void begin_gradients(const program::Op& op);

  // Sum of squares of the elements that this rank brings to the norm. See Note [Who brings an element to the
  // norm].
  tensor::Tensor squared_norm() const;
  // The same of one bucket; undefined if this rank brings nothing of it.
  tensor::Tensor squared_norm(std::uint32_t item) const;

  // Between steps: Full of every bucket, until free_all; Shard and State of one, wherever they lie.
  bool has_full(std::uint32_t item) { return bucket(item).full().defined(); }
  void gather_all();
  void free_all();
  tensor::Tensor shard_between_steps(const shard::FlatBucket& bucket);
  std::vector<tensor::Tensor> state_between_steps(const shard::FlatBucket& bucket);
  // Takes over changed ones that lie outside; what lies in memory was changed there.
  void put_between_steps(const shard::FlatBucket& bucket, const tensor::Tensor& shard,
                         std::span<const tensor::Tensor> state);

  // What thin sums left out of a bucket's gradients: the sum over the ranks that reduce it. Undefined where
  // nothing is left out.
  tensor::Tensor error_between_steps(const shard::FlatBucket& bucket);
  void put_error(const shard::FlatBucket& bucket, const tensor::Tensor& error);
  // Of the same buckets, what the next sum begins with.
  ThinSum* thin_sum(const shard::FlatBucket& bucket);
  // Ranks that reduce a bucket hold equal errors from here on; all call it.
  void settle_errors();

  // Out of memory and back, since the last call.
  BytesMoved take_moved();

 private:
  struct Counters {
    std::atomic<std::int64_t> offloaded = 0, fetched = 0;
  };
  shard::FlatBucket& bucket(std::uint32_t item) { return parts_.buckets[place_.at(item)]; }
  std::uint32_t item_of(const shard::FlatBucket& bucket) const;
  const collective::Group& group(std::int16_t axis_set) const;
  ServerExchange exchange(const shard::FlatBucket& bucket, const collective::Group& members) const;
  void give(const shard::FlatBucket& bucket, const collective::Group& members) const;
  void make_full(shard::FlatBucket& bucket, const collective::Group& members, tensor::Tensor memory = {});
  void reduce_packed(shard::FlatBucket& reduced, tensor::Tensor& whole, const collective::Group& members);
  static void gather_rest(const shard::FlatBucket& bucket, const collective::Group& members,
                          tensor::Tensor whole);
  // See Note [Who brings an element to the norm].
  struct NormShare {
    bool brings = false;
    Slice slice;  // of what the rank holds
  };
  NormShare norm_share(const program::Bucket& bucket) const;

  const Parts& parts_;
  const SlotMemory& slots_;
  const program::Tables& tables_;
  std::vector<tensor::Tensor> ahead_;              // by bucket of the tables
  std::vector<std::optional<ThinSum>> thin_sums_;  // by bucket that is held
  std::vector<NormShare> norm_shares_;             // by bucket that is held
  std::vector<std::size_t> place_;                 // by bucket of the tables: place among those held
  std::vector<shard::FlatBucket*> visiting_;       // by gather_all in memory, until free_all
  Counters moved_;
};

}  // namespace tessera::engine
