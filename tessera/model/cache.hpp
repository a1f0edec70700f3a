// What generation carries from token to token: keys and values of the positions before.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tessera/parallel/layers.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::model {

using tensor::Tensor;

// Of samples whose lengths may differ. A first forward has the positions from 0 on of all of them, filled up
// behind the shorter ones with any token; each later one has one position more of each.
class Cache {
 public:
  // So many positions of a sample fit.
  explicit Cache(std::int64_t capacity) : capacity_(capacity) {}

  // Between forwards: how many positions each sample has by now. What was beyond is forgotten.
  void set_lengths(const std::vector<std::int64_t>& lengths, at::Device device);
  // Whether there was a forward.
  bool is_filled() const { return longest_ > 0; }
  // Of each sample, on the device: also the position that the next forward has.
  const Tensor& lengths_B() const { return lengths_B_; }

  // The first forward: takes the keys and values of a layer.
  void begin(const parallel::Heads& heads, std::size_t layer);
  // A later one: takes those of its position, and attends to the last `window` that there are; 0: to all.
  Tensor attend(const parallel::Heads& heads, std::size_t layer, std::int64_t window);

 private:
  struct Kept {
    Tensor keys_BCKD, values_BCKD;
  };
  const Tensor& sees(std::int64_t window);

  std::int64_t capacity_, longest_ = 0;
  Tensor lengths_B_;
  Tensor rows_B_;    // where the next position of each sample lies among all
  Tensor after_BC_;  // how far before the next one of its sample a position lies; undefined: all are equally
                     // long
  std::map<std::int64_t, Tensor> sees_B11C_;  // by window, of the next forward: made when a layer first asks
  std::vector<Kept> layers_;
};

}  // namespace tessera::model
