// What a family tells the compiler about a model: its units as pieces and its parameters by bucket. One
// function per family, in its folder below tessera/families.
#pragma once

#include <vector>

#include "tessera/plan/model/pieces.hpp"
#include "tessera/program/ir/tables.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

// How a parameter lies on the ranks of tp.
enum class TensorPlacement : std::uint8_t {
  by_stream,  // whole, and used where the residual stream is
  by_heads,   // whole, and used by each rank for its heads
  cut,        // each rank has its part
  with_keys,  // cut as the heads of keys and values are: several ranks may share a head
  experts,    // cut by experts, then within each
};

struct PlacedParameter {
  program::Parameter parameter;  // the whole
  TensorPlacement placement = TensorPlacement::by_stream;
  bool is_wide = false;  // computed with as stored, in at least 32 bits
  program::UpdateRule rule = program::UpdateRule::optimizer;
  double sign_rate = 0;  // UpdateRule::sign
};
using PlacedParameters = std::vector<PlacedParameter>;

struct ModelPlan {
  program::Unit embedding, head;  // pieces of one micro-batch on one rank
  std::vector<program::Unit> blocks;
  // In the order in which they lie. What is multiplied as one matrix (q, k, v; gate, up) is neighbours, so
  // that the fused product is a view.
  PlacedParameters embedding_parameters;
  std::vector<PlacedParameters> block_parameters;
  PlacedParameters head_parameters;
  bool head_reads_embedding = false;  // its table is then on the first stage and on the last
  // Norms and biases: they do not decay.
  std::vector<PlacedParameters> block_vectors;
  PlacedParameters head_vectors;
  std::int64_t sequence = 0;      // tokens of a sample
  std::int64_t key_ranks = 1;     // ranks of tp among which the heads of keys and values are cut
  std::int64_t hidden_bytes = 0;  // of what one stage sends another for a micro-batch
  InnerSets sets;                 // over which its pieces communicate
};

// Cut along their first dim (rows: outputs) or their last (columns: inputs).
PlacedParameter rows_cut(program::Parameter parameter, TensorPlacement placement = TensorPlacement::cut);
PlacedParameter columns_cut(program::Parameter parameter);

// The function of each line of spec/families.def.
#define FAMILY(name, ...) ModelPlan name##_plan(const spec::Model& model, const StepShape& shape);
#include "tessera/spec/families.def"
#undef FAMILY

}  // namespace tessera::plan
