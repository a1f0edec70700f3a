// What does a family tell the compiler about a model? Its units as pieces and its parameters by bucket. One
// function per family, in a file of its own; family.cpp is the one place that chooses.
#pragma once

#include <vector>

#include "tessera/program/ir/tables.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

// How a parameter lies on the ranks of tp.
enum class Lies : std::uint8_t {
  by_stream,  // whole, and used where the residual stream is
  by_heads,   // whole, and used by each rank for its heads
  cut,        // each rank has its part
  with_keys,  // cut as the heads of keys and values are: several ranks may share a head
};

struct LaidParameter {
  program::Parameter parameter;  // the whole
  Lies lies = Lies::by_stream;
};
using LaidParameters = std::vector<LaidParameter>;

struct Blueprint {
  program::Unit embedding, head;  // pieces of one micro-batch on one rank
  std::vector<program::Unit> blocks;
  // In the order in which they lie. What is multiplied as one matrix (q, k, v; gate, up) is neighbours, so
  // that the fused product is a view.
  LaidParameters embedding_parameters;
  std::vector<LaidParameters> block_parameters;
  LaidParameters head_parameters;  // none: the head reads the embedding's table
  // Norms and biases: they do not decay.
  std::vector<LaidParameters> block_vectors;
  LaidParameters head_vectors;
};

// Cut along their first dim (rows: outputs) or their last (columns: inputs).
LaidParameter rows_cut(program::Parameter parameter, Lies lies = Lies::cut);
LaidParameter columns_cut(program::Parameter parameter);

Blueprint blueprint(const spec::Run& run);

Blueprint llama_blueprint(const spec::Run& run);
Blueprint gpt2_blueprint(const spec::Run& run);

}  // namespace tessera::plan
