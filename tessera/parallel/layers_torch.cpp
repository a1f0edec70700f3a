#include "tessera/parallel/layers.hpp"

#include <ATen/ops/_log_softmax_ops.h>
#include <ATen/ops/mul_ops.h>
#include <ATen/ops/silu_backward_ops.h>
#include <ATen/ops/silu_ops.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/parallel/blocks/block_embedding.hpp"
#include "tessera/parallel/blocks/block_linear.hpp"
#include "tessera/parallel/blocks/table_rows.hpp"
#include "tessera/parallel/blocks/traveling_blocks.hpp"
#include "tessera/parallel/vocabulary_product.hpp"
#include "tessera/shard/kept_weight.hpp"

namespace tessera::parallel {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

using shard::keep;
using shard::kept_weight;
using shard::kept_work;

Tensor product(const Tensor& x, const Projection& by) {
  const Tensor w = by.weight_OI->value().t();
  return by.bias_O ? by.bias_O->value().addmm(x, w) : x.mm(w);
}
// Returns dx; the weight half goes to `work`.
Tensor backward_product(const Tensor& dy, const Tensor& x, const Projection& by, WeightWork& work) {
  Tensor dx = dy.mm(by.weight_OI->value());
  work.product(*by.weight_OI, dy, x);
  if (by.bias_O) work.column_sums(*by.bias_O, dy);
  return dx;
}
Tensor side_by_side(const std::vector<Tensor>& parts) {
  return parts.size() == 1 ? parts.front() : tensor::concatenate(parts, 1);
}

std::int64_t kept_address(const void* address) { return reinterpret_cast<std::int64_t>(address); }
Weight* weight_at(std::int64_t address) { return reinterpret_cast<Weight*>(address); }

struct Linear : Function<Linear> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, Weight* weight, Weight* bias,
                        WeightWork* work) {
    keep(ctx, *weight, *work);
    ctx->saved_data["bias"] = kept_address(bias);
    ctx->save_for_backward({x});
    return product(x, {weight, bias});
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const Projection by{&kept_weight(ctx), weight_at(ctx->saved_data["bias"].toInt())};
    const Tensor dx = backward_product(gradients[0].contiguous(), ctx->get_saved_variables()[0].detach(), by,
                                       kept_work(ctx));
    return {dx, Tensor(), Tensor(), Tensor()};
  }
};

Tensor gathered(const Tensor& x, const collective::Group& group) { return stacked(x, group).flatten(0, 1); }

struct EnteringLinear : Function<EnteringLinear> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const std::vector<Projection>& projections,
                        WeightWork* work, const collective::Group* tp, Result result) {
    ctx->saved_data["work"] = kept_address(work);
    ctx->saved_data["tp"] = kept_address(tp);
    c10::List<std::int64_t> kept;
    std::int64_t channels = 0;
    for (const Projection& by : projections) {
      kept.push_back(kept_address(by.weight_OI));
      kept.push_back(kept_address(by.bias_O));
      channels += by.weight_OI->value().size(0);
    }
    ctx->saved_data["projections"] = kept;
    ctx->save_for_backward({x});
    if (result == Result::unneeded) return x.new_empty({x.size(0) * tp->size(), channels});
    const Tensor all = gathered(x, *tp);
    std::vector<Tensor> out;
    for (const Projection& by : projections) out.push_back(product(all, by));
    return side_by_side(out);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto& tp = *reinterpret_cast<const collective::Group*>(ctx->saved_data["tp"].toInt());
    const auto kept = ctx->saved_data["projections"].toIntVector();
    Tensor dx;
    {
      const Tensor all = gathered(ctx->get_saved_variables()[0], tp).detach();
      std::int64_t first = 0;
      for (std::size_t i = 0; i < kept.size(); i += 2) {
        const Projection by{weight_at(kept[i]), weight_at(kept[i + 1])};
        const Tensor dy = gradients[0].narrow(1, first, by.weight_OI->value().size(0)).contiguous();
        first += dy.size(1);
        const Tensor part = backward_product(dy, all, by, kept_work(ctx));
        dx = dx.defined() ? dx.add_(part) : part;
      }
    }
    Tensor own = tensor::empty({dx.size(0) / tp.size(), dx.size(1)}, dx.scalar_type(), dx.device());
    tp.reduce_scatter_sum(own, dx);
    return {own, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

struct Embedding : Function<Embedding> {
  static Tensor forward(AutogradContext* ctx, const Tensor&, const Tensor& tokens, Weight* weight,
                        WeightWork* work) {
    keep(ctx, *weight, *work);
    ctx->save_for_backward({tokens});
    return weight->value().index_select(0, tokens);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    kept_work(ctx).rows(kept_weight(ctx), ctx->get_saved_variables()[0], gradients[0]);
    return {Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

struct AddBias : Function<AddBias> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, Weight* bias, WeightWork* work) {
    keep(ctx, *bias, *work);
    return x.add(bias->value());
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const Tensor dy = gradients[0].contiguous();
    kept_work(ctx).column_sums(kept_weight(ctx), dy);
    return {dy, Tensor(), Tensor()};
  }
};

// Of one part of the table.
struct PartEmbedding : Function<PartEmbedding> {
  static Tensor forward(AutogradContext* ctx, const Tensor&, const Tensor& tokens, Weight* weight,
                        WeightWork* work, std::int64_t part) {
    keep(ctx, *weight, *work);
    const Tensor& table = weight->value();
    const TableRows rows = rows_of_part(tokens, table.size(0), part);
    ctx->save_for_backward({rows.rows_T, rows.is_elsewhere_T1});
    return looked_up(table, rows);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    kept_work(ctx).rows(kept_weight(ctx), saved[0], gradients[0].masked_fill(saved[1], 0));
    return {Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

// out = x rotated by the angle of (cos, sin); the inverse rotation is the one by (cos, -sin).
void rotate(Tensor out, const Tensor& x, const Tensor& cos, const Tensor& sin, double sign) {
  const std::int64_t half = x.size(-1) / 2;
  const Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  Tensor out_a = out.narrow(-1, 0, half), out_b = out.narrow(-1, half, half);
  at::_ops::mul_out::call(x, cos, out);
  out_a.addcmul_(b, sin, -sign);
  out_b.addcmul_(a, sin, sign);
}

struct SplitAndRotate : Function<SplitAndRotate> {
  static variable_list forward(AutogradContext* ctx, const Tensor& qkv, const Tensor& cos, const Tensor& sin,
                               std::int64_t samples, std::int64_t heads, std::int64_t kv_heads) {
    const std::int64_t head_dim = cos.size(-1);
    const std::int64_t positions = qkv.size(0) / samples;
    ctx->saved_data["heads"] = heads;
    ctx->saved_data["kv_heads"] = kv_heads;
    ctx->save_for_backward({cos, sin});
    const Tensor all_BSND = qkv.view({samples, positions, heads + 2 * kv_heads, head_dim});
    Tensor turned_BSND =
        tensor::empty({samples, positions, heads + kv_heads, head_dim}, qkv.scalar_type(), qkv.device());
    rotate(turned_BSND, all_BSND.narrow(2, 0, heads + kv_heads), cos, sin, 1.0);
    return {turned_BSND.narrow(2, 0, heads).transpose(1, 2),
            turned_BSND.narrow(2, heads, kv_heads).transpose(1, 2),
            all_BSND.narrow(2, heads + kv_heads, kv_heads).transpose(1, 2)};
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const std::int64_t heads = ctx->saved_data["heads"].toInt(),
                       kv_heads = ctx->saved_data["kv_heads"].toInt();
    const auto sizes = gradients[0].sizes();
    Tensor dqkv_BSND = tensor::empty({sizes[0], sizes[2], heads + 2 * kv_heads, sizes[3]},
                                     gradients[0].scalar_type(), gradients[0].device());
    rotate(dqkv_BSND.narrow(2, 0, heads), gradients[0].transpose(1, 2), saved[0], saved[1], -1.0);
    rotate(dqkv_BSND.narrow(2, heads, kv_heads), gradients[1].transpose(1, 2), saved[0], saved[1], -1.0);
    dqkv_BSND.narrow(2, heads + kv_heads, kv_heads).copy_(gradients[2].transpose(1, 2));
    return {dqkv_BSND.view({sizes[0] * sizes[2], -1}), Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

// Only the root mean squares are kept beside what is kept anyway: normed heads are made again from qkv.
struct SplitNormAndRotate : Function<SplitNormAndRotate> {
  static variable_list forward(AutogradContext* ctx, const Tensor& qkv, const Tensor& q_weight,
                               const Tensor& k_weight, const Tensor& cos, const Tensor& sin,
                               std::int64_t samples, std::int64_t heads, double epsilon) {
    const std::int64_t head_dim = cos.size(-1), positions = qkv.size(0) / samples;
    const Tensor all_BSND = qkv.view({samples, positions, -1, head_dim});
    const std::int64_t kv_heads = (all_BSND.size(2) - heads) / 2;
    const Tensor both_BSND = all_BSND.narrow(2, 0, heads + kv_heads);
    const auto wide = tensor::wide(qkv.scalar_type());
    Tensor normed = both_BSND.to(wide);
    Tensor scale = normed.mul(normed).mean(-1, /*keepdim=*/true).add_(epsilon).rsqrt_();
    normed = qkv.scalar_type() == wide ? normed.mul(scale) : normed.mul_(scale);
    weigh(normed, heads, q_weight, k_weight);
    normed = normed.to(qkv.scalar_type());
    Tensor turned_BSND = tensor::empty(normed.sizes(), qkv.scalar_type(), qkv.device());
    rotate(turned_BSND, normed, cos, sin, 1.0);
    ctx->saved_data["heads"] = heads;
    ctx->save_for_backward({qkv, scale, q_weight, k_weight, cos, sin});
    return {turned_BSND.narrow(2, 0, heads).transpose(1, 2),
            turned_BSND.narrow(2, heads, kv_heads).transpose(1, 2),
            all_BSND.narrow(2, heads + kv_heads, kv_heads).transpose(1, 2)};
  }
  // With n = x * scale and y = n * w turned: dn = w dy turned back, dx = scale (dn - n mean(n dn)).
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &qkv = saved[0], &scale = saved[1], &cos = saved[4], &sin = saved[5];
    const std::int64_t heads = ctx->saved_data["heads"].toInt();
    const std::int64_t samples = scale.size(0), positions = scale.size(1), both = scale.size(2),
                       kv_heads = both - heads, head_dim = cos.size(-1);
    const Tensor all_BSND = qkv.view({samples, positions, heads + 2 * kv_heads, head_dim});
    Tensor d_BSND = tensor::empty({samples, positions, both, head_dim}, qkv.scalar_type(), qkv.device());
    rotate(d_BSND.narrow(2, 0, heads), gradients[0].transpose(1, 2), cos, sin, -1.0);
    rotate(d_BSND.narrow(2, heads, kv_heads), gradients[1].transpose(1, 2), cos, sin, -1.0);
    d_BSND = d_BSND.to(scale.scalar_type());
    Tensor normed = all_BSND.narrow(2, 0, both).to(scale.scalar_type());
    normed = normed.is_alias_of(qkv) ? normed.mul(scale) : normed.mul_(scale);
    Tensor d_q, d_k;
    {
      Tensor products = d_BSND.mul(normed);
      d_q = products.narrow(2, 0, heads).sum({0, 1, 2});
      d_k = products.narrow(2, heads, kv_heads).sum({0, 1, 2});
      weigh(products, heads, saved[2], saved[3]);
      normed.mul_(products.mean(-1, /*keepdim=*/true));
    }
    weigh(d_BSND, heads, saved[2], saved[3]);
    d_BSND.sub_(normed).mul_(scale);
    normed.reset();
    Tensor dqkv_BSND = tensor::empty(all_BSND.sizes(), qkv.scalar_type(), qkv.device());
    dqkv_BSND.narrow(2, 0, both).copy_(d_BSND);
    dqkv_BSND.narrow(2, both, kv_heads).copy_(gradients[2].transpose(1, 2));
    return {dqkv_BSND.view(qkv.sizes()), d_q, d_k, Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
  static void weigh(Tensor& both_BSND, std::int64_t heads, const Tensor& q_weight, const Tensor& k_weight) {
    both_BSND.narrow(2, 0, heads).mul_(q_weight);
    both_BSND.narrow(2, heads, both_BSND.size(2) - heads).mul_(k_weight);
  }
};

struct SwiGlu : Function<SwiGlu> {
  static Tensor forward(AutogradContext* ctx, const Tensor& gate_up) {
    const std::int64_t ffn = gate_up.size(1) / 2;
    const Tensor opened = at::_ops::silu::call(gate_up.narrow(1, 0, ffn));
    ctx->save_for_backward({gate_up, opened});
    return opened.mul(gate_up.narrow(1, ffn, ffn));
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const Tensor gate_up = saved[0], opened = saved[1], dy = gradients[0];
    const std::int64_t ffn = opened.size(1);
    Tensor out = tensor::empty(gate_up.sizes(), gate_up.scalar_type(), gate_up.device());
    Tensor d_gate = out.narrow(1, 0, ffn), d_up = out.narrow(1, ffn, ffn);
    at::_ops::mul_out::call(dy, opened, d_up);
    at::_ops::silu_backward_grad_input::call(dy.mul(gate_up.narrow(1, ffn, ffn)), gate_up.narrow(1, 0, ffn),
                                             d_gate);
    return {out};
  }
};

// Note [Loss gradient in the forward]
// The gradient of a sum of cross entropies is known as soon as the logits of a chunk are, up to the one
// factor that divides by the global count of valid tokens. So the forward of the head multiplies it out chunk
// by chunk, keeps dx [T,H] and dW [V,H] on the tape, and the backward scales them: no chunk is computed
// twice, the weight half costs one addition, and the halves of a split backward do the same work as a whole
// one. The price is one more dW per micro-batch in flight on the head's stage; without a gradient mode only
// the loss is computed. What is narrowed to 16 bits here must already carry a loss scale, or fp16 would lose
// in the forward what the scale is to save: hence `gradient_factor`, which stands for scale / tokens while
// tokens are not known.
struct VocabularyLoss : Function<VocabularyLoss> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& targets, Weight* weight,
                        WeightWork* work, const ParallelContext* context, double gradient_factor,
                        bool differentiate) {
    const collective::Group& others = context->branch_channels().group;
    keep(ctx, *weight, *work);
    ctx->saved_data["gradient_factor"] = gradient_factor;
    const auto wide = tensor::wide(x.scalar_type());
    Tensor loss = tensor::zeros({}, wide, x.device());
    const auto product = vocabulary_product(x, weight->value(), context->grid.entering, differentiate);
    const std::int64_t tokens = product->tokens(), chunk = product->rows_of_chunk(context->loss_chunk);
    for (std::int64_t first = 0; first < tokens; first += chunk) {
      const std::int64_t rows = std::min(chunk, tokens - first);
      const Tensor targets_c = targets.narrow(0, first, rows), valid = targets_c.ge(0);
      Tensor logits = product->logits(first, rows).to(wide);
      Scores scores = others.size() > 1
                          ? part_scores(std::move(logits), targets_c, others)
                          : whole_scores(at::_ops::_log_softmax::call(logits, 1, false), targets_c);
      logits.reset();
      loss.sub_(scores.of_target.mul_(valid).sum());
      if (!differentiate) continue;
      Tensor& d = scores.probabilities(rows);
      d.mul_(valid.to(wide).mul_(gradient_factor).unsqueeze(1));
      product->add_gradient(d.to(x.scalar_type()), first, rows);
    }
    if (differentiate) {
      const auto [dx, dw] = product->gradients();
      ctx->save_for_backward({dx, dw});
    }
    return loss;
  }

  // Of a chunk of tokens.
  struct Scores {
    Tensor table;             // logarithms of probabilities, or what times `factor` is a probability
    Tensor factor;            // undefined: the table has logarithms
    Tensor index, minus_one;  // where the target lies in the table, and what is added there
    Tensor of_target;         // logarithm of the target's probability
    Tensor& probabilities(std::int64_t rows) {  // less one at the target: the gradient of the loss
      if (factor.defined())
        table.mul_(factor);
      else
        table.exp_();
      if (!minus_one.defined())
        minus_one = tensor::empty({rows, 1}, table.scalar_type(), table.device()).fill_(-1.0);
      return table.scatter_add_(1, index, minus_one);
    }
  };

  static Scores whole_scores(Tensor logarithms, const Tensor& targets) {
    const Tensor index = targets.clamp_min(0).unsqueeze(1);
    const Tensor of_target = logarithms.gather(1, index).squeeze(1);
    return {std::move(logarithms), {}, index, {}, of_target};
  }

  // Each rank has the logits of its part of the vocabulary. Largest values, sums and the targets' logits are
  // kept in wide numbers and merged in the order of ranks, so that all of them get the same bits.
  static Scores part_scores(Tensor logits, const Tensor& targets, const collective::Group& tp) {
    const std::int64_t rows = logits.size(0), columns = logits.size(1);
    const Tensor column = targets.sub(columns * tp.rank());
    const Tensor owned = column.ge(0).logical_and_(column.lt(columns)).to(logits.scalar_type());
    const Tensor index = column.clamp(0, columns - 1).unsqueeze(1);
    Tensor mine = tensor::empty({1, 3, rows}, logits.scalar_type(), logits.device());
    const Tensor largest = mine[0][0], sum = mine[0][1], target = mine[0][2];
    largest.copy_(logits.amax(1));
    target.copy_(logits.gather(1, index).squeeze(1).mul_(owned));
    logits.sub_(largest.unsqueeze(1)).exp_();
    sum.copy_(logits.sum(1));
    Tensor all = tensor::empty({tp.size(), 3, rows}, logits.scalar_type(), logits.device());
    tp.all_gather(all, mine);
    const Tensor everywhere = all.select(1, 0).amax(0);
    const Tensor total = all.select(1, 0).sub(everywhere).exp_().mul_(all.select(1, 1)).sum(0);
    const Tensor of_target = all.select(1, 2).sum(0).sub_(everywhere).sub_(total.log());
    const Tensor factor = largest.sub(everywhere).exp_().div_(total).unsqueeze(1);
    return {std::move(logits), factor, index, owned.neg().unsqueeze(1), of_target};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const Tensor scale = gradients[0].to(at::kDouble).div(ctx->saved_data["gradient_factor"].toDouble());
    kept_work(ctx).term(kept_weight(ctx), saved[1], scale);
    return {saved[0].mul(scale), Tensor(), Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor linear(const Tensor& x_TI, Weight& weight_OI, WeightWork& work, Weight* bias_O) {
  TESSERA_CHECK(x_TI.dim() == 2 && x_TI.size(1) == weight_OI.value().size(1), "linear: input [", x_TI.size(0),
                ", ", x_TI.size(-1), "] does not fit a weight with ", weight_OI.value().size(1), " inputs");
  return Linear::apply(x_TI, &weight_OI, bias_O, &work);
}

Tensor entering_linear(const Tensor& x_TI, std::span<const Projection> projections, WeightWork& work,
                       const ParallelContext& context, Result result) {
  if (context.grid.in_blocks()) {
    std::vector<Tensor> out;
    for (const auto& [weight, bias] : projections)
      out.push_back(add_bias(block_linear(x_TI, *weight, work, context.grid.entering, result), bias, work));
    return side_by_side(out);
  }
  if (context.regathers)
    return EnteringLinear::apply(x_TI, std::vector(projections.begin(), projections.end()), &work,
                                 &context.tp.group, result);
  std::vector<Tensor> out;
  for (const auto& [weight, bias] : projections) out.push_back(linear(x_TI, *weight, work, bias));
  return side_by_side(out);
}

Tensor leaving_linear(const Tensor& x_TI, Weight& weight_OI, WeightWork& work, const ParallelContext& context,
                      Weight* bias_O, Result result) {
  if (!context.grid.in_blocks()) return linear(x_TI, weight_OI, work, bias_O);
  return add_bias(block_linear(x_TI, weight_OI, work, context.grid.leaving, result), bias_O, work);
}

Tensor linear_to_stream(const Tensor& x_TI, Weight& weight_OI, WeightWork& work,
                        const ParallelContext& context, Weight* bias_O) {
  if (context.tp.group.size() == 1) return linear(x_TI, weight_OI, work, bias_O);
  return add_bias(to_stream(linear(x_TI, weight_OI, work), context), bias_O, work);
}

Tensor add_bias(const Tensor& x_TO, Weight* bias_O, WeightWork& work) {
  return bias_O ? AddBias::apply(x_TO, bias_O, &work) : x_TO;
}

Tensor embedding(const Tensor& tokens_T, Weight& weight_VH, const Tensor& tape, WeightWork& work) {
  return Embedding::apply(tape, tokens_T, &weight_VH, &work);
}

Tensor embedding_to_stream(const Tensor& tokens_T, Weight& weight_VH, const Tensor& tape, WeightWork& work,
                           const ParallelContext& context) {
  if (context.grid.in_blocks()) {
    // Of all ranks among which the table's columns are cut; layers of 2.5d have tables of their own.
    const Grid& grid = context.grid;
    const bool is_cube = grid.entering.form == ProductAxes::Form::cube;
    const std::int64_t rows = grid.entering.weights.size(), layers = is_cube ? 1 : grid.stream.parts / rows,
                       tokens = tokens_T.size(0) / layers,
                       first = is_cube ? 0 : grid.stream.part / rows * tokens;
    return block_embedding(tokens_T.narrow(0, first, tokens), weight_VH, tape, work,
                           {grid.entering, grid.branch_channels.group});
  }
  const auto& tp = context.tp.group;
  if (tp.size() == 1) return embedding(tokens_T, weight_VH, tape, work);
  return to_stream(PartEmbedding::apply(tape, tokens_T, &weight_VH, &work, tp.rank()), context);
}

Heads split(const Tensor& qkv, std::int64_t samples, std::int64_t heads) {
  // Autograd's own views: the derivative of unbind is one copy that stacks the three gradients.
  const auto parts = qkv.view({samples, qkv.size(0) / samples, 3, heads, -1}).unbind(2);
  return {parts[0].transpose(1, 2), parts[1].transpose(1, 2), parts[2].transpose(1, 2)};
}

Heads split_and_rotate(const Tensor& qkv, const Rotary& rotary, std::int64_t samples, std::int64_t heads,
                       std::int64_t kv_heads) {
  const auto out = SplitAndRotate::apply(qkv, rotary.cos_S1D, rotary.sin_S1H, samples, heads, kv_heads);
  return {out[0], out[1], out[2]};
}

Heads split_norm_and_rotate(const Tensor& qkv, const HeadNorm& norm, const Rotary& rotary,
                            std::int64_t samples, std::int64_t heads, std::int64_t kv_heads) {
  TESSERA_CHECK(qkv.size(1) == (heads + 2 * kv_heads) * norm.q_D.size(0), "heads that do not fit their norm");
  const auto out = SplitNormAndRotate::apply(qkv, norm.q_D, norm.k_D, rotary.cos_S1D, rotary.sin_S1H, samples,
                                             heads, norm.epsilon);
  return {out[0], out[1], out[2]};
}

Tensor swiglu(const Tensor& gate_up_T2F) { return SwiGlu::apply(gate_up_T2F); }

Tensor vocabulary_loss(const Tensor& x_TH, Weight& weight_VH, const Tensor& targets_T, WeightWork& work,
                       const ParallelContext& context, double gradient_factor) {
  const bool differentiate = at::GradMode::is_enabled() && x_TH.requires_grad();
  return VocabularyLoss::apply(from_stream(x_TH, context), targets_T, &weight_VH, &work, &context,
                               gradient_factor, differentiate);
}

Tensor logits(const Tensor& x_TH, const Weight& weight_VH, const collective::Group& tp) {
  const Tensor part = x_TH.mm(weight_VH.value().t());
  if (tp.size() == 1) return part;
  return stacked(part, tp).transpose(0, 1).flatten(1);
}

}  // namespace tessera::parallel
