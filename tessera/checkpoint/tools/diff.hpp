// Compares two checkpoints: which tensors, which numbers of the state and which keys of the run differ, and
// by how much. How the tensors are cut into files does not matter.
#pragma once

#include "tessera/checkpoint/folder/checkpoint.hpp"

namespace tessera::checkpoint {

// A tensor that both have with other bytes.
struct TensorDifference {
  std::string name;
  std::int64_t elements = 0, differing = 0;  // by their bits
  double absolute = 0,
         relative = 0;  // largest; relative to the larger of the two; infinite if one is no number
  bool operator==(const TensorDifference&) const = default;
};

// A key or number with the two values as text; empty where one has none.
struct KeyDifference {
  std::string key, first, second;
  bool operator==(const KeyDifference&) const = default;
};

struct Difference {
  std::vector<std::string> only_first, only_second;  // tensors
  std::vector<KeyDifference> other_form;             // tensors with another dtype or shape
  std::vector<TensorDifference> tensors;
  std::int64_t num_equal = 0;        // tensors
  std::vector<KeyDifference> state;  // step, samples, seed, loss scale
  std::vector<KeyDifference> config;
  // Whether both say the same. The keys of [layout], [cluster] and [checkpoint] may differ: they say how, not
  // what.
  bool equal() const;
};

// Reads both once; memory is two blocks.
Difference diff(Checkpoint& first, Checkpoint& second, const Told& told = nullptr);

}  // namespace tessera::checkpoint
