// What does a Llama model compute and hold? Its units as pieces, and its parameters.
#pragma once

#include <vector>

#include "tessera/program/tables.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

program::Dtype storage_dtype(spec::Precision precision);
program::Dtype compute_dtype(spec::Precision precision);

// Pieces of one micro-batch on one rank.
program::Unit embedding_unit(const spec::Run& run);
program::Unit block_unit(const spec::Run& run, std::int64_t layer);
program::Unit head_unit(const spec::Run& run);

// Parameters by bucket, in the order in which they lie; q, k, v and gate, up are neighbours so that the fused
// products are views.
std::vector<program::Parameter> embedding_parameters(const spec::Model& model);
std::vector<program::Parameter> block_parameters(const spec::Model& model, std::int64_t layer);
std::vector<program::Parameter> head_parameters(const spec::Model& model);
std::vector<program::Parameter> norm_parameters(const spec::Model& model);

}  // namespace tessera::plan
