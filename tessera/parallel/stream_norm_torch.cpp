#include "tessera/parallel/stream_norm.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "tessera/parallel/blocks/traveling_blocks.hpp"

namespace tessera::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Of all channels, by token: the mean, or zero for a norm without one, and the inverse of the root of the
// mean square around it.
struct Statistics {
  Tensor mean_T1, scale_T1;
};

// Every rank's own mean and squares around it are merged in the order of ranks: all get the same bits.
Statistics statistics(const Tensor& wide_TH, bool has_mean, double epsilon, const collective::Group& group) {
  const auto tokens = wide_TH.size(0), here = wide_TH.size(1);
  Tensor mine_2T = tensor::empty({has_mean ? 2 : 1, tokens}, wide_TH.scalar_type(), wide_TH.device());
  Tensor centered = wide_TH;
  if (has_mean) {
    mine_2T[1].copy_(wide_TH.mean(1));
    centered = wide_TH.sub(mine_2T[1].unsqueeze(1));
  }
  mine_2T[0].copy_(centered.mul(centered).sum(1));
  const Tensor all_N2T = stacked(mine_2T, group);
  Tensor squares_T = all_N2T.select(1, 0).sum(0), mean_T1;
  if (has_mean) {
    const Tensor means_NT = all_N2T.select(1, 1), mean_T = means_NT.mean(0), apart_NT = means_NT.sub(mean_T);
    squares_T.add_(apart_NT.mul(apart_NT).sum(0), static_cast<double>(here));
    mean_T1 = mean_T.unsqueeze(1);
  }
  const auto channels = static_cast<double>(here * group.size());
  return {mean_T1, squares_T.div_(channels).add_(epsilon).rsqrt_().unsqueeze(1)};
}

Tensor normed(const Tensor& wide_TH, const Statistics& of) {
  return of.mean_T1.defined() ? wide_TH.sub(of.mean_T1).mul_(of.scale_T1) : wide_TH.mul(of.scale_T1);
}

// The tape holds x and its statistics. A norm without mean has no bias.
struct StreamNorm : Function<StreamNorm> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias, double epsilon, const collective::Group* group) {
    const Tensor wide = x.to(tensor::wide(x.scalar_type()));
    const Statistics of = statistics(wide, bias.has_value(), epsilon, *group);
    ctx->saved_data["group"] = reinterpret_cast<std::int64_t>(group);
    ctx->save_for_backward({x, weight, of.mean_T1, of.scale_T1});
    Tensor out = normed(wide, of).mul_(weight);
    if (bias) out.add_(*bias);
    return out.to(x.scalar_type());
  }
  // With n the normed x and g = w dy: dx = scale (g - mean(g) - n mean(n g)), the first mean only if x's is
  // taken away.
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto& group = *reinterpret_cast<const collective::Group*>(ctx->saved_data["group"].toInt());
    const Tensor &x = saved[0], &weight = saved[1];
    const Statistics of{saved[2], saved[3]};
    const bool has_mean = of.mean_T1.defined();
    const auto wide = tensor::wide(x.scalar_type());
    const Tensor n = normed(x.to(wide), of);
    Tensor dy = gradients[0].to(wide);
    const Tensor d_weight = dy.mul(n).sum(0).to(weight.scalar_type());
    Tensor d_bias;
    if (has_mean) d_bias = dy.sum(0).to(weight.scalar_type());
    Tensor g = dy.mul(weight);
    dy = Tensor();
    Tensor sums_2T = tensor::empty({has_mean ? 2 : 1, x.size(0)}, wide, x.device());
    sums_2T[0].copy_(g.mul(n).sum(1));
    if (has_mean) sums_2T[1].copy_(g.sum(1));
    group.all_reduce_sum(sums_2T);
    sums_2T.div_(static_cast<double>(x.size(1) * group.size()));
    if (has_mean) g.sub_(sums_2T[1].unsqueeze(1));
    g.sub_(n.mul(sums_2T[0].unsqueeze(1))).mul_(of.scale_T1);
    return {g.to(x.scalar_type()), d_weight, d_bias, Tensor(), Tensor()};
  }
};

}  // namespace

Tensor rms_norm(const Tensor& x_TH, const Tensor& weight_H, double epsilon,
                const collective::Group& channels) {
  if (channels.size() == 1) return tensor::rms_norm(x_TH, weight_H, epsilon);
  return StreamNorm::apply(x_TH, weight_H, std::optional<Tensor>(), epsilon, &channels);
}

Tensor layer_norm(const Tensor& x_TH, const Tensor& weight_H, const Tensor& bias_H, double epsilon,
                  const collective::Group& channels) {
  if (channels.size() == 1) return tensor::layer_norm(x_TH, weight_H, bias_H, epsilon);
  return StreamNorm::apply(x_TH, weight_H, std::optional<Tensor>(bias_H), epsilon, &channels);
}

}  // namespace tessera::parallel
