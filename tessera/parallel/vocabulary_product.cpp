#include "tessera/parallel/vocabulary_product.hpp"

#include <algorithm>

#include "tessera/parallel/blocks/traveling_blocks.hpp"

namespace tessera::parallel {
namespace {

void add_weight_gradient(Tensor sum, const Tensor& d_logits, const Tensor& x) {
  if (x.scalar_type() == sum.scalar_type())
    sum.addmm_(d_logits.t(), x);
  else
    sum.add_(d_logits.t().mm(x));
}

Tensor wide_zeros(at::IntArrayRef shape, const Tensor& like) {
  return tensor::zeros(shape, tensor::wide(like.scalar_type()), like.device());
}
Tensor room_like(const Tensor& x) { return tensor::empty(x.sizes(), x.scalar_type(), x.device()); }

class WholeProduct final : public VocabularyProduct {
 public:
  WholeProduct(const Tensor& x, const Tensor& weight, bool differentiates) : x_(x), weight_(weight) {
    if (differentiates) dx_ = room_like(x), dw_ = wide_zeros(weight.sizes(), x);
  }
  std::int64_t tokens() const override { return x_.size(0); }
  Tensor logits(std::int64_t first, std::int64_t rows) override {
    return x_.narrow(0, first, rows).mm(weight_.t());
  }
  void add_gradient(const Tensor& d_logits, std::int64_t first, std::int64_t rows) override {
    dx_.narrow(0, first, rows).copy_(d_logits.mm(weight_));
    add_weight_gradient(dw_, d_logits, x_.narrow(0, first, rows));
  }
  Gradients gradients() override { return {dx_, dw_}; }

 private:
  const Tensor &x_, &weight_;
  Tensor dx_, dw_;
};

// Holds the rank's rows of the table over all channels while the loss is computed.
class SquareProduct final : public VocabularyProduct {
 public:
  SquareProduct(const Tensor& x, const Tensor& weight, const ProductAxes& axes, bool differentiates)
      : x_(x), axes_(axes), weight_KVH_(stacked(weight, axes.weights)) {
    if (differentiates) dx_ = room_like(x), dw_KVH_ = wide_zeros(weight_KVH_.sizes(), x);
  }
  std::int64_t tokens() const override { return x_.size(0); }
  Tensor logits(std::int64_t first, std::int64_t rows) override {
    chunk_KTH_ = stacked(x_.narrow(0, first, rows), axes_.inputs);
    Tensor out = chunk_KTH_[0].mm(weight_KVH_[0].t());
    for (std::int64_t k = 1; k < weight_KVH_.size(0); ++k) out.addmm_(chunk_KTH_[k], weight_KVH_[k].t());
    return out;
  }
  void add_gradient(const Tensor& d_logits, std::int64_t first, std::int64_t rows) override {
    Tensor parts_KTH = room_like(chunk_KTH_);
    for (std::int64_t k = 0; k < weight_KVH_.size(0); ++k) {
      parts_KTH[k].copy_(d_logits.mm(weight_KVH_[k]));
      add_weight_gradient(dw_KVH_[k], d_logits, chunk_KTH_[k]);
    }
    dx_.narrow(0, first, rows).copy_(scattered(parts_KTH, axes_.inputs));
  }
  Gradients gradients() override { return {dx_, scattered(dw_KVH_, axes_.weights)}; }

 private:
  const Tensor& x_;
  const ProductAxes& axes_;
  Tensor weight_KVH_, chunk_KTH_, dx_, dw_KVH_;
};

// A chunk has the same rows of every part of the gathered tokens, so that scattering leaves each rank its
// own.
class CubeProduct final : public VocabularyProduct {
 public:
  CubeProduct(const Tensor& x, const Tensor& weight, const ProductAxes& axes, bool differentiates)
      : axes_(axes),
        x_PTH_(stacked(x, axes.inputs).view({axes.sums.size(), -1, x.size(1)})),
        weight_KVH_(stacked(weight, axes.weights)) {
    if (differentiates) dx_PTH_ = room_like(x_PTH_), dw_KVH_ = wide_zeros(weight_KVH_.sizes(), x);
  }
  std::int64_t tokens() const override { return x_PTH_.size(1); }
  std::int64_t rows_of_chunk(std::int64_t rows) const override {
    return std::max<std::int64_t>(1, rows / axes_.sums.size());
  }
  Tensor logits(std::int64_t first, std::int64_t rows) override {
    chunk_ = x_PTH_.narrow(1, first, rows).reshape({-1, x_PTH_.size(2)});
    Tensor sums = channels(chunk_, 0).mm(weight_KVH_[0].t());
    for (std::int64_t k = 1; k < weight_KVH_.size(0); ++k)
      sums.addmm_(channels(chunk_, k), weight_KVH_[k].t());
    return scattered(sums.view({axes_.sums.size(), rows, -1}), axes_.sums);
  }
  void add_gradient(const Tensor& d_logits, std::int64_t first, std::int64_t rows) override {
    const Tensor all = stacked(d_logits, axes_.sums).flatten(0, 1);
    Tensor dx = room_like(chunk_);
    for (std::int64_t k = 0; k < weight_KVH_.size(0); ++k) {
      channels(dx, k).copy_(all.mm(weight_KVH_[k]));
      add_weight_gradient(dw_KVH_[k], all, channels(chunk_, k));
    }
    dx_PTH_.narrow(1, first, rows).copy_(dx.view({axes_.sums.size(), rows, -1}));
  }
  Gradients gradients() override {
    const std::int64_t parts = axes_.inputs.size();
    return {scattered(dx_PTH_.view({parts, -1, dx_PTH_.size(2)}), axes_.inputs),
            scattered(dw_KVH_, axes_.weights)};
  }

 private:
  // Those that block k of the table takes.
  Tensor channels(const Tensor& x, std::int64_t k) const {
    const std::int64_t width = weight_KVH_.size(2);
    return x.narrow(1, k * width, width);
  }

  const ProductAxes& axes_;
  Tensor x_PTH_, weight_KVH_, chunk_, dx_PTH_, dw_KVH_;
};

}  // namespace

std::unique_ptr<VocabularyProduct> vocabulary_product(const Tensor& x, const Tensor& weight,
                                                      const ProductAxes& axes, bool differentiates) {
  switch (axes.form) {
    case ProductAxes::Form::whole:
      return std::make_unique<WholeProduct>(x, weight, differentiates);
    case ProductAxes::Form::square:
      return std::make_unique<SquareProduct>(x, weight, axes, differentiates);
    case ProductAxes::Form::cube:
      break;
  }
  return std::make_unique<CubeProduct>(x, weight, axes, differentiates);
}

}  // namespace tessera::parallel
