// Which experts each token goes to, and with what weights. The choice depends on the token alone: never on
// the layout, and of equal scores the lower expert wins.
//
// Shapes: T tokens, E experts, K experts of a token.
#pragma once

#include <cstdint>

#include "tessera/collective/group.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::parallel {

struct RouterRule {
  enum class Scores { softmax, sigmoid };
  Scores scores = Scores::softmax;
  std::int64_t experts_per_token = 2;
  // Experts lie in `groups` equal groups; only those of the groups whose two best scores add up to most are
  // chosen from.
  std::int64_t groups = 1, groups_kept = 1;
  bool normalizes = true;  // the weights of a token add up to `scale`
  double scale = 1;
};

struct Routing {
  tensor::Tensor scores_TE;   // in fp32 or fp64, with a gradient
  tensor::Tensor experts_TK;  // int64, the best first
  tensor::Tensor weights_TK;  // as the scores, with a gradient
};

// `bias_E` is added to the scores for the choice alone; undefined: none. `chosen_TK`, if defined, is taken as
// the choice.
Routing route(const tensor::Tensor& logits_TE, const tensor::Tensor& bias_E, const RouterRule& rule,
              const tensor::Tensor& chosen_TK = {});

// Tokens of several sequences, some of which lie on other ranks of a group: what each chose, its sequence (of
// num_sequences, the same on all ranks) and its position.
struct SequenceChoices {
  tensor::Tensor experts_TK, sequences_T, positions_T;
  std::int64_t num_sequences = 0;
};
// The choices of this rank's tokens, less those that come after others of their sequence, in the order of
// positions, have filled their expert: -1. An expert takes `factor` times an even share of what the sequence
// chose, rounded up. All ranks of the group have equally many tokens, and call it together.
tensor::Tensor within_capacity(const SequenceChoices& choices, double factor, std::int64_t num_experts,
                               const collective::Group& group);

// 0, 1, 2 and so on in int64, as many as `like` has, on its device.
tensor::Tensor counting_up(const tensor::Tensor& like);

// How many tokens chose each expert, [E] in int64; negative choices count nowhere.
tensor::Tensor loads(const tensor::Tensor& experts_TK, std::int64_t num_experts);
// The same by sample, [B,E].
tensor::Tensor loads(const tensor::Tensor& experts_TK, const tensor::Tensor& samples_T,
                     std::int64_t num_samples, std::int64_t num_experts);

}  // namespace tessera::parallel
