#include "tessera/parallel/blocks/block_linear.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include "tessera/base/error.hpp"
#include "tessera/parallel/blocks/traveling_blocks.hpp"
#include "tessera/shard/kept_weight.hpp"

namespace tessera::parallel {
namespace {

using shard::Weight;
using shard::WeightWork;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

void add_product(Tensor& sum, const Tensor& a, const Tensor& b) {
  if (sum.defined())
    sum.addmm_(a, b);
  else
    sum = a.mm(b);
}

struct Gradients {
  Tensor x, weight;
};

Tensor square_product(const Tensor& x, const Tensor& w, const ProductAxes& axes) {
  IncomingBlocks xs(x, axes.inputs, axes.weights.rank(), axes.gathers);
  IncomingBlocks ws(w, axes.weights, axes.inputs.rank(), axes.gathers);
  Tensor y;
  for (int step = 0; step < axes.inputs.size(); ++step) {
    const Tensor x_k = xs.take();
    add_product(y, x_k, ws.take().t());
  }
  return y;
}

Gradients square_backward(const Tensor& dy, const Tensor& x, const Tensor& w, const ProductAxes& axes) {
  const auto wide = tensor::wide(x.scalar_type());
  const int row = axes.weights.rank(), column = axes.inputs.rank();
  IncomingBlocks xs(x, axes.inputs, row, axes.gathers);
  IncomingBlocks ws(w, axes.weights, column, axes.gathers);
  OutgoingSums dx(axes.inputs, row, axes.gathers), dw(axes.weights, column, axes.gathers);
  for (int step = 0; step < axes.inputs.size(); ++step) {
    const Tensor x_k = xs.take(), w_k = ws.take();
    dx.give(dy.mm(w_k));
    dw.give(dy.t().mm(x_k).to(wide));
  }
  Tensor of_x = dx.sum();
  return {of_x, dw.sum()};
}

// Of the channels of x those that block k of W takes.
Tensor channels_of(const Tensor& x, const Tensor& blocks_KOI, std::int64_t k) {
  return x.narrow(1, k * blocks_KOI.size(2), blocks_KOI.size(2));
}

Tensor tokens_gathered(const Tensor& x, const collective::Group& group) {
  return stacked(x, group).flatten(0, 1);
}
Tensor tokens_scattered(const Tensor& sums, const collective::Group& group) {
  return scattered(sums.view({group.size(), sums.size(0) / group.size(), sums.size(1)}), group);
}

Tensor cube_product(const Tensor& x, const Tensor& w, const ProductAxes& axes) {
  const Tensor all = tokens_gathered(x, axes.inputs), blocks_KOI = stacked(w, axes.weights);
  Tensor y;
  for (std::int64_t k = 0; k < blocks_KOI.size(0); ++k)
    add_product(y, channels_of(all, blocks_KOI, k), blocks_KOI[k].t());
  return tokens_scattered(y, axes.sums);
}

Gradients cube_backward(const Tensor& dy, const Tensor& x, const Tensor& w, const ProductAxes& axes) {
  const Tensor dy_all = tokens_gathered(dy, axes.sums);
  Tensor dx;
  {
    const Tensor blocks_KOI = stacked(w, axes.weights);
    Tensor all = tensor::empty({dy_all.size(0), x.size(1)}, x.scalar_type(), x.device());
    for (std::int64_t k = 0; k < blocks_KOI.size(0); ++k)
      channels_of(all, blocks_KOI, k).copy_(dy_all.mm(blocks_KOI[k]));
    dx = tokens_scattered(all, axes.inputs);
  }
  const Tensor all = tokens_gathered(x, axes.inputs);
  Tensor dw_KOI =
      tensor::empty({axes.weights.size(), w.size(0), w.size(1)}, tensor::wide(x.scalar_type()), x.device());
  for (std::int64_t k = 0; k < dw_KOI.size(0); ++k)
    dw_KOI[k].copy_(dy_all.t().mm(channels_of(all, dw_KOI, k)));
  return {dx, scattered(dw_KOI, axes.weights)};
}

// The shape is the product's: a cube gathers tokens over one axis and scatters them over another.
Tensor unwritten(const Tensor& x, const Tensor& w, const ProductAxes& axes) {
  const bool is_cube = axes.form == ProductAxes::Form::cube;
  return x.new_empty({is_cube ? x.size(0) * axes.inputs.size() / axes.sums.size() : x.size(0), w.size(0)});
}

struct BlockLinear : Function<BlockLinear> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, Weight* weight, WeightWork* work,
                        const ProductAxes* axes, collective::Result result) {
    shard::keep(ctx, *weight, *work);
    shard::keep_address(ctx, "axes", axes);
    ctx->save_for_backward({x});
    if (result == collective::Result::unneeded) return unwritten(x, weight->value(), *axes);
    return axes->form == ProductAxes::Form::cube ? cube_product(x, weight->value(), *axes)
                                                 : square_product(x, weight->value(), *axes);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    Weight& weight = shard::kept_weight(ctx);
    const auto& axes = *shard::kept_address<const ProductAxes>(ctx, "axes");
    const Tensor dy = gradients[0].contiguous(), x = ctx->get_saved_variables()[0].detach();
    const Gradients found = axes.form == ProductAxes::Form::cube
                                ? cube_backward(dy, x, weight.value(), axes)
                                : square_backward(dy, x, weight.value(), axes);
    shard::kept_work(ctx).term(weight, found.weight);
    return {found.x, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor block_linear(const Tensor& x_TI, Weight& weight_OI, WeightWork& work, const ProductAxes& axes,
                    collective::Result result) {
  TESSERA_CHECK(axes.form != ProductAxes::Form::whole, "block_linear: nothing is cut in blocks");
  return BlockLinear::apply(x_TI, &weight_OI, &work, &axes, result);
}

}  // namespace tessera::parallel
