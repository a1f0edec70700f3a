// The Llama family: RMSNorm, rotary positions, grouped queries, SwiGLU, tied or untied embeddings.
#pragma once

#include <span>

#include "tessera/model/unit.hpp"
#include "tessera/program/tables.hpp"
#include "tessera/shard/flat_bucket.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::model {

// The units of the tables (embedding, block.i, head); spec and buckets must outlive the model.
Model make_llama(const spec::Model& spec, const program::Tables& tables,
                 std::span<shard::FlatBucket> buckets);

// All logits of a micro-batch, with Full of every bucket gathered: for generation and for comparing with other implementations.
Tensor llama_logits(Model& model, const program::Tables& tables, const Batch& batch);

}  // namespace tessera::model
