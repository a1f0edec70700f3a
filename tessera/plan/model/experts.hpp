// The feed-forward part of a block with experts: its pieces, what they hold, and its parameters.
#pragma once

#include "tessera/plan/model/family.hpp"
#include "tessera/plan/model/pieces.hpp"

namespace tessera::plan {

// Of one micro-batch on one rank: t tokens that the rank routes, k experts of a token, f inner width of an
// expert, all of the rank's own; rows that leave it, and that come to its experts under layout.expert_load.
struct ExpertSizes {
  std::int64_t t, k, f, experts, held, ranks, slices, leaving, rows;
  ExpertSizes(const spec::Model& model, const spec::Layout& layout);
};

// What ranks tell each other before rows travel: loads of sequences, what fills an expert, how many rows go
// where and in which order.
std::vector<program::Collective> routing_calls(const spec::Model& model, const Sizes& s,
                                               const ExpertSizes& e);
// Where all ranks of tp have all tokens, each routes its share of them.
void add_sharing_of_tokens(std::vector<program::Collective>& calls, const Sizes& s);
// The same for what experts made of them, which no backward needs.
void add_sharing_of_results(program::Piece& piece, const Sizes& s);

// The pieces after attention: middle -> hidden.
std::vector<program::Piece> expert_pieces(const spec::Model& model, const StepShape& shape,
                                          std::int64_t layer);
// Router and experts; the bias of the choice, if the layer has one.
PlacedParameters expert_parameters(const spec::Model& model, std::int64_t layer);
PlacedParameters expert_vectors(const spec::Model& model, std::int64_t layer);

}  // namespace tessera::plan
