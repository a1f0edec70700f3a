// What does a family tell the compiler about a model? Its units as pieces and its parameters by bucket. One function per
// family, in a file of its own; family.cpp is the one place that chooses.
#pragma once

#include <vector>

#include "tessera/program/tables.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

struct Blueprint {
  program::Unit embedding, head;  // pieces of one micro-batch on one rank
  std::vector<program::Unit> blocks;
  // In the order in which they lie. What is multiplied as one matrix (q, k, v; gate, up) is neighbours, so that the fused
  // product is a view.
  std::vector<program::Parameter> embedding_parameters;
  std::vector<std::vector<program::Parameter>> block_parameters;
  std::vector<program::Parameter> head_parameters;  // none: the head reads the embedding's table
  // Norms and biases: they do not decay.
  std::vector<std::vector<program::Parameter>> block_vectors;
  std::vector<program::Parameter> head_vectors;
};

Blueprint blueprint(const spec::Run& run);

Blueprint llama_blueprint(const spec::Run& run);
Blueprint gpt2_blueprint(const spec::Run& run);

}  // namespace tessera::plan
