// The feed-forward part of a block with experts: its pieces, what they hold, and its parameters.
#pragma once

#include "tessera/plan/model/family.hpp"
#include "tessera/plan/model/pieces.hpp"

namespace tessera::plan {

// Of one micro-batch on one rank: t tokens that the rank routes, k experts of a token, f inner width of an
// expert, all of the rank's own; rows that leave it, and that come to its experts under layout.expert_load.
struct ExpertSizes {
  std::int64_t t, k, f, experts, held, ranks, slices, leaving, rows;
  explicit ExpertSizes(const spec::Run& run);
};

// The pieces after attention: middle -> hidden.
std::vector<program::Piece> expert_pieces(const spec::Run& run, std::int64_t layer);
// Router and experts; the bias of the choice, if the layer has one.
PlacedParameters expert_parameters(const spec::Model& model, std::int64_t layer);
PlacedParameters expert_vectors(const spec::Model& model, std::int64_t layer);

}  // namespace tessera::plan
