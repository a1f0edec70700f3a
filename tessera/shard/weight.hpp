// A weight and where its gradient goes: a view of a run of parameters in a flat bucket.
#pragma once

#include "tessera/tensor/tensor.hpp"

namespace tessera::shard {

// Invariants: `value` and `gradient` are views of the bucket's flat buffers with one shape, undefined while
// the buffer is not there; a gradient's content is undefined until the first add, which overwrites instead of
// adding (no zero fill).
class Weight {
 public:
  Weight(tensor::Tensor value, tensor::Tensor gradient);

  const tensor::Tensor& value() const { return value_; }
  const tensor::Tensor& gradient() const { return gradient_; }
  bool written() const { return written_; }

  // gradient += dy^T x, the weight half of y = x W^T.
  void add_product(const tensor::Tensor& dy_TO, const tensor::Tensor& x_TI);
  // The same of weights [E, ..., I] for the rows of each, `rows[e]` of them after those of the ones before.
  void add_grouped_product(const tensor::Tensor& dy_RO, const tensor::Tensor& x_RI,
                           const std::vector<std::int64_t>& rows);
  // gradient += scale * term.
  void add(const tensor::Tensor& term, const tensor::Tensor& scale = {});
  // gradient[rows[i]] += dy[i], the weight half of an embedding.
  void add_rows(const tensor::Tensor& rows_T, const tensor::Tensor& dy_TH);

  // gradient += the sum of dy's rows, the weight half of adding a bias.
  void add_column_sums(const tensor::Tensor& dy_TO);

  // Buffers come and go; the weight stays where it is.
  void set_value(tensor::Tensor value) { value_ = std::move(value); }
  void set_gradient(tensor::Tensor gradient);
  // Forgets what was added.
  void restart_gradient() { written_ = false; }
  // What no micro-batch wrote is zero.
  void end_gradient();

 private:
  tensor::Tensor value_, gradient_;
  bool written_ = false;
};

// The weight halves of a segment's layers: (x, dy) pairs and ready terms. Kept for backward_weight, or, in a
// whole backward, multiplied at once, while dy is still in the cache and before it is freed.
class WeightWork {
 public:
  void product(Weight& weight, tensor::Tensor dy_TO, tensor::Tensor x_TI);
  void grouped_product(Weight& weight, tensor::Tensor dy_RO, tensor::Tensor x_RI,
                       std::vector<std::int64_t> rows);
  // Times `scale`, a number on the device, if there is one.
  void term(Weight& weight, tensor::Tensor term, tensor::Tensor scale = {});
  void rows(Weight& weight, tensor::Tensor rows_T, tensor::Tensor dy_TH);
  void column_sums(Weight& bias, tensor::Tensor dy_TO);
  // What is kept is run, and from now on nothing is kept.
  void run_at_once() {
    run();
    at_once_ = true;
  }
  // Multiplies what is kept into the gradient buffers in the order it came, and forgets it.
  void run();
  bool empty() const { return terms_.empty(); }

 private:
  enum class Kind { product, grouped_product, term, rows, column_sums };
  struct Term {
    Kind kind;
    Weight* weight;
    tensor::Tensor a, b;
    std::vector<std::int64_t> rows = {};
  };
  void take(Term term);
  static void run(const Term& term);

  std::vector<Term> terms_;
  bool at_once_ = false;
};

}  // namespace tessera::shard
