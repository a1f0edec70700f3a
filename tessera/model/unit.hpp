// What does a model look like to the engine? Units made of pieces: functions of values, with their weights'
// gradients deferred. The same code serves training, recomputation and (without a tape) evaluation.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/shard/weight.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::model {

using tensor::Tensor;

// Keys and values [B,K,S,D] of the positions before, per layer: what generation carries from token to token.
struct Cache {
  std::vector<Tensor> keys, values;
};

// One micro-batch of one rank: constants of its forward. T = samples * positions.
struct Batch {
  std::int64_t samples = 0;
  Tensor tokens_T, targets_T;  // targets below 0 don't count
  Cache* cache = nullptr;      // generation: read and extended; after the first call one position at a time
};

// What one forward of a segment leaves behind for its backward, besides the graph.
class Tape {
 public:
  // A vector weight, differentiated by autograd: a leaf over its value.
  Tensor leaf(shard::Weight& weight);
  // Any tensor that requires a gradient, for layers whose inputs are constants.
  Tensor anchor();

  shard::WeightWork work;
  std::vector<std::pair<Tensor, shard::Weight*>> leaves;
  Tensor anchor_tensor;
};

struct Outcome {
  std::vector<Tensor> values;
  std::vector<Tensor> losses;  // one sum per loss of the segment
};

class Unit {
 public:
  virtual ~Unit() = default;
  // Runs pieces [first, first + count) of the plan's description on the values they read; inputs are never
  // changed.
  virtual Outcome forward(std::size_t first, std::size_t count, std::vector<Tensor> values,
                          const Batch& batch, Tape& tape) = 0;
};

using Model = std::vector<std::unique_ptr<Unit>>;  // in the order of Tables::units

}  // namespace tessera::model
