#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/parallel/dropout.hpp"
#include "tessera/parallel/kernels/dropout_op.hpp"
#include "tessera/parallel/kernels/launch.hpp"

namespace tessera::parallel {

namespace {

using kernels::Mask;
using tensor::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

using kernels::kDropoutSteps;

struct Dropped : Function<Dropped> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Mask* mask) {
    ctx->save_for_backward({mask->samples, mask->positions});
    ctx->saved_data["first"] = mask->first;
    ctx->saved_data["first_channel"] = mask->first_channel;
    ctx->saved_data["key"] = static_cast<std::int64_t>(mask->key);
    ctx->saved_data["dropped"] = mask->dropped;
    return dropout(x, *mask);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const Mask mask{saved[0],
                    saved[1],
                    ctx->saved_data["first"].toInt(),
                    ctx->saved_data["first_channel"].toInt(),
                    static_cast<std::uint64_t>(ctx->saved_data["key"].toInt()),
                    ctx->saved_data["dropped"].toInt()};
    return {dropout(gradients[0], mask), Tensor()};
  }
};

}  // namespace

Dropout::Dropout(double rate, std::uint64_t seed, std::int64_t unit, Place place)
    : key_(random_bits(seed, stream_of("dropout"),
                       static_cast<std::uint64_t>(unit) * 4 + static_cast<std::uint64_t>(place))),
      dropped_(std::min<std::int64_t>(kDropoutSteps - 1,
                                      std::llround(rate * static_cast<double>(kDropoutSteps)))) {}

Tensor Dropout::operator()(const Tensor& x_TH, const Rows& rows) const {
  if (dropped_ == 0 || !rows.samples.defined()) return x_TH;
  TESSERA_CHECK(x_TH.dim() == 2 && rows.first + x_TH.size(0) <= rows.samples.numel() * rows.positions.numel(),
                "dropout: rows from ", rows.first, " on, ", x_TH.size(0), " of them, for ",
                rows.samples.numel(), " samples");
  const Mask mask{rows.samples, rows.positions, rows.first, rows.first_channel, key_, dropped_};
  return Dropped::apply(x_TH, &mask);
}

}  // namespace tessera::parallel
