// The parts of an executor. Everything is handed in by whoever joins the parts, and outlives it.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/base/process/activity.hpp"
#include "tessera/collective/group.hpp"
#include "tessera/engine/turns.hpp"
#include "tessera/model/unit.hpp"
#include "tessera/optim/optimizer.hpp"
#include "tessera/program/ir/types.hpp"
#include "tessera/program/memory/slots.hpp"
#include "tessera/shard/flat_bucket.hpp"
#include "tessera/shard/offload_store.hpp"

namespace tessera::engine {

// groups[i] is the group of axis set i; model, buckets and optimizers are what this rank holds (a bucket's
// table is the program's; an optimizer per bucket). What lies outside between steps is in the offload store.
struct Parts {
  const program::Tables& tables;
  const program::Sequence& sequence;  // this rank's
  std::int64_t rank = 0;
  std::span<const collective::Group> groups;
  model::Model& model;
  std::span<shard::FlatBucket> buckets;
  std::span<optim::BucketOptimizer> optimizers;
  shard::OffloadStore& offload_store;
  double clip_norm = 0;
  ActivityLog* log = nullptr;             // where this rank writes what it is doing
  at::Device device = at::kCPU;           // of buckets and batches
  const program::Slots* slots = nullptr;  // of this rank: where cells lie; nothing: wherever there is memory
  Turns* turns = nullptr;                 // of a server that takes any
  bool keep_gradients = false;  // each step's ShardGrad stays until the next, for whoever compares it
};

}  // namespace tessera::engine
