// The product of a head, chunk by chunk of tokens, with the gradients that its loss makes at once.
#pragma once

#include <memory>

#include "tessera/parallel/blocks/grid.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::parallel {

class VocabularyProduct {
 public:
  struct Gradients {
    tensor::Tensor x_TH, weight_VH;  // as x and the weight lie; the weight's in wide numbers
  };
  virtual ~VocabularyProduct() = default;
  // Tokens that logits are of.
  virtual std::int64_t tokens() const = 0;
  // How many of them make a chunk that has so many rows in memory.
  virtual std::int64_t rows_of_chunk(std::int64_t rows) const { return rows; }
  // Of `rows` tokens from `first` on, of this rank's part of the vocabulary.
  virtual tensor::Tensor logits(std::int64_t first, std::int64_t rows) = 0;
  // Of the same tokens, right after their logits.
  virtual void add_gradient(const tensor::Tensor& d_logits, std::int64_t first, std::int64_t rows) = 0;
  // After the last chunk, if it differentiates.
  virtual Gradients gradients() = 0;
};

// x [T,H] and weight [V,H], or a rank's blocks of them.
std::unique_ptr<VocabularyProduct> vocabulary_product(const tensor::Tensor& x, const tensor::Tensor& weight,
                                                      const ProductAxes& axes, bool differentiates);

}  // namespace tessera::parallel
