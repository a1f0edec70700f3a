// The model as the engine sees it: units made of pieces, which are functions of values, with their weights'
// gradients deferred. The same code serves training, recomputation and (without a tape) evaluation.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/parallel/document_blocks.hpp"
#include "tessera/shard/weight.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::collective {
class Group;
}
namespace tessera::parallel {
class Dispatch;
}

namespace tessera::model {

using tensor::Tensor;

class Cache;

using ByLayer = std::map<std::size_t, Tensor>;

// One micro-batch of one rank: constants of its forward. T = samples * positions.
struct Batch {
  std::int64_t samples = 0;
  Tensor tokens_T, targets_T;  // targets below 0 don't count
  // The same of the next positions, for blocks that predict ahead alone.
  Tensor tokens_ahead_T, targets_ahead_T;
  parallel::Documents documents;
  Tensor sample_indices_B;          // global: dropout counts with them; undefined: no dropout
  double head_gradient_factor = 1;  // of the gradient that a loss head makes in its forward
  Tensor order_T;                   // rising numbers of the tokens, different on all ranks; for experts alone
  Tensor counted_T;                 // which tokens are no padding; undefined: all
  // Experts that a forward without a tape chose, [T,K], until its recomputation takes them.
  std::shared_ptr<ByLayer> choices;
  // Of a step. How many of the rank's tokens chose each expert, and after these how many choices were
  // dropped, [E+1] in int64. Forwards with a tape add to it, so that each micro-batch counts once.
  ByLayer* loads = nullptr;
  // Choices to take in place of the router's, [T,K]; of no layer: all are the router's.
  ByLayer replayed;
  // Of a step. Where defined, tokens by order_T and what they chose, [T,1+K].
  ByLayer* made = nullptr;
  // By layer: the ways of rows that segments of their own send, set by the one that chooses.
  using Dispatches = std::vector<std::shared_ptr<const parallel::Dispatch>>;
  std::shared_ptr<Dispatches> dispatches;
  Cache* cache = nullptr;  // generation: read and extended (cache.hpp)
};

// What one forward of a segment leaves behind for its backward, besides the graph.
class Tape {
 public:
  // A vector weight, differentiated by autograd: a leaf over a copy of its value.
  Tensor leaf(shard::Weight& weight);
  // The same in at least 32 bits, for layers that keep statistics in the dtype of their weights.
  Tensor wide_leaf(shard::Weight& weight);
  // Any tensor that requires a gradient, for layers whose inputs are constants.
  Tensor anchor();

  shard::WeightWork work;
  std::vector<std::pair<Tensor, shard::Weight*>> leaves;
  Tensor anchor_tensor;
  // The values that the forward gives are there already: it may leave them unwritten, and omits the calls
  // that only they need (program/ir/work.hpp).
  bool is_recomputed = false;
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
  // What comes of a value that the piece has written once ranks have exchanged its rows; of a gradient, on
  // the way back. Called on a lane that communicates.
  virtual Tensor exchanged(std::size_t piece, const Tensor& rows, bool is_gradient, const Batch& batch,
                           const collective::Group& group) const;
};

// The last unit of a model.
class Head : public Unit {
 public:
  // Logits of the hidden values, without a gradient.
  virtual Tensor logits(const Tensor& x) const = 0;
};

using Model = std::vector<std::unique_ptr<Unit>>;  // in the order of Tables::units

}  // namespace tessera::model
