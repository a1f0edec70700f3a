#include "tessera/parallel/experts/grouped_linear.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include <ATen/ops/_grouped_mm_ops.h>
#include <ATen/ops/mm_ops.h>

#include "tessera/base/error.hpp"
#include "tessera/shard/kept_weight.hpp"
#include "tessera/tensor/device.hpp"

namespace tessera::parallel {
namespace {

using tensor::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// x_e times matrix e, for the rows of each. One kernel where there is one: none takes fp64, and that of CPUs
// is this loop.
Tensor products(const Tensor& x_RI, const std::vector<std::int64_t>& rows, const Tensor& matrices_EIO) {
  if (!x_RI.is_cpu() && x_RI.scalar_type() != at::kDouble) {
    std::vector<std::int64_t> ends;
    for (const std::int64_t count : rows) ends.push_back(count + (ends.empty() ? 0 : ends.back()));
    const Tensor ends_E = tensor::on_device(tensor::indices(ends).to(at::kInt), x_RI.device());
    return at::_ops::_grouped_mm::call(x_RI, matrices_EIO, ends_E, {}, {});
  }
  Tensor out = tensor::empty({x_RI.size(0), matrices_EIO.size(2)}, x_RI.scalar_type(), x_RI.device());
  std::int64_t first = 0;
  for (std::size_t expert = 0; expert < rows.size(); first += rows[expert++]) {
    if (rows[expert] == 0) continue;
    Tensor part = out.narrow(0, first, rows[expert]);
    at::_ops::mm_out::call(x_RI.narrow(0, first, rows[expert]),
                           matrices_EIO.select(0, static_cast<std::int64_t>(expert)), part);
  }
  return out;
}

Tensor matrices_of(const shard::Weight& weight) { return weight.value().flatten(1, -2); }

struct GroupedLinear : Function<GroupedLinear> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const std::vector<std::int64_t>& rows,
                        shard::Weight* weight, shard::WeightWork* work) {
    shard::keep(ctx, *weight, *work);
    ctx->saved_data["rows"] = rows;
    ctx->save_for_backward({x});
    return products(x, rows, matrices_of(*weight).transpose(1, 2));
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    shard::Weight& weight = shard::kept_weight(ctx);
    const auto rows = ctx->saved_data["rows"].toIntVector();
    const Tensor dy = gradients[0].contiguous();
    const Tensor dx = products(dy, rows, matrices_of(weight));
    shard::kept_work(ctx).grouped_product(weight, dy, ctx->get_saved_variables()[0].detach(), rows);
    return {dx, Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor grouped_linear(const Tensor& x_RI, const std::vector<std::int64_t>& rows, shard::Weight& weight_EOI,
                      shard::WeightWork& work) {
  TESSERA_CHECK(std::ssize(rows) == weight_EOI.value().size(0), "rows of ", rows.size(),
                " experts for the weights of ", weight_EOI.value().size(0));
  return GroupedLinear::apply(x_RI, rows, &weight_EOI, &work);
}

}  // namespace tessera::parallel
