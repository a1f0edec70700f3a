#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tessera/bare/bare_step.hpp"

namespace bare {

namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

struct Layer {
  Tensor norm1, qkv, out, norm2, gate, up, down;
};

// cos and sin of position times frequency, [sequence, 1, head_dim], both halves equal.
std::pair<Tensor, Tensor> rope_tables(const Config& c, at::ScalarType dtype) {
  const std::int64_t head_dim = c.hidden / c.heads;
  const Tensor frequency = at::pow(c.rope_theta, at::arange(0, head_dim, 2, at::kFloat) / -double(head_dim));
  const Tensor angle = at::outer(at::arange(c.sequence, at::kFloat), frequency);
  const Tensor both = at::cat({angle, angle}, -1).unsqueeze(1);
  return {both.cos().to(dtype), both.sin().to(dtype)};
}

// Pseudo-random weights that a few lines of any language repeat exactly: bench/peers starts from the same.
Tensor initial(std::int64_t index, at::IntArrayRef shape, double deviation) {
  const Tensor i = at::arange(c10::multiply_integers(shape), at::kDouble);
  return (i * i * 0.7548776662466927 + index)
      .sin()
      .mul(deviation * std::sqrt(2.0))
      .to(at::kFloat)
      .view(shape);
}

}  // namespace

struct BareStep::State {
  explicit State(const Config& config) : c(config), low_precision(c.precision == "bf16") {
    const std::int64_t d = c.hidden, head_dim = d / c.heads;
    const double deviation = 0.02, residual = deviation / std::sqrt(2.0 * double(c.layers));
    embedding = weight({c.vocab, d}, deviation);
    for (std::int64_t i = 0; i < c.layers; ++i) {
      Layer layer;
      layer.norm1 = ones();
      layer.qkv = weight({(c.heads + 2 * c.kv_heads) * head_dim, d}, deviation);
      layer.out = weight({d, d}, residual);
      layer.norm2 = ones();
      layer.gate = weight({c.ffn, d}, deviation);
      layer.up = weight({c.ffn, d}, deviation);
      layer.down = weight({d, c.ffn}, residual);
      layers.push_back(layer);
    }
    norm = ones();
    head = c.tied ? embedding : weight({c.vocab, d}, deviation);
    std::tie(cos, sin) = rope_tables(c, low_precision ? at::kBFloat16 : at::kFloat);
    for (const Tensor& master : masters) {
      first_moments.push_back(at::zeros_like(master));
      second_moments.push_back(at::zeros_like(master));
      if (low_precision) gradients.push_back(at::empty_like(master));
    }
    step_counts.assign(masters.size(), at::zeros({}, at::kFloat));
  }

  Tensor weight(at::IntArrayRef shape, double deviation) {
    return added(initial(std::int64_t(masters.size()), shape, deviation));
  }
  Tensor ones() { return added(at::ones({c.hidden})); }

  // The tensor the model computes with: the master itself, or its bf16 copy.
  Tensor added(const Tensor& master) {
    masters.push_back(master);
    computed.push_back((low_precision ? master.to(at::kBFloat16) : master).requires_grad_());
    return computed.back();
  }

  Tensor rotated(const Tensor& x_NTHD) const {
    const auto halves = x_NTHD.chunk(2, -1);
    return (x_NTHD * cos).addcmul(at::cat({-halves[1], halves[0]}, -1), sin);
  }

  Tensor attention(const Tensor& x, const Layer& layer, std::int64_t samples) const {
    const std::int64_t head_dim = c.hidden / c.heads;
    const Tensor qkv =
        at::linear(x, layer.qkv).view({samples, c.sequence, c.heads + 2 * c.kv_heads, head_dim});
    const auto parts = qkv.split_with_sizes({c.heads + c.kv_heads, c.kv_heads}, 2);
    const auto qk = rotated(parts[0]).split_with_sizes({c.heads, c.kv_heads}, 2);
    const Tensor out_NHTD = at::scaled_dot_product_attention(
        qk[0].transpose(1, 2), qk[1].transpose(1, 2), parts[1].transpose(1, 2), {}, 0.0, /*is_causal=*/true,
        {}, /*enable_gqa=*/c.heads != c.kv_heads);
    return at::linear(out_NHTD.transpose(1, 2).reshape({-1, c.hidden}), layer.out);
  }

  // Two products: fused into one, autograd joins the halves' gradients by a copy, and forward plus backward
  // of this function took 1.03 to 1.16 of the time in bf16 (fp32: equal).
  Tensor feed_forward(const Tensor& x, const Layer& layer) const {
    return at::linear(at::silu(at::linear(x, layer.gate)) * at::linear(x, layer.up), layer.down);
  }

  // Sum of the cross entropies of one micro-batch.
  Tensor loss_sum(const Tensor& tokens, const Tensor& targets) const {
    const auto normed = [&](const Tensor& x, const Tensor& gain) {
      return at::rms_norm(x, {c.hidden}, gain, c.norm_epsilon);
    };
    Tensor x = at::embedding(embedding, tokens.flatten());
    for (const Layer& layer : layers) {
      x = x + attention(normed(x, layer.norm1), layer, tokens.size(0));
      x = x + feed_forward(normed(x, layer.norm2), layer);
    }
    const Tensor logits = at::linear(normed(x, norm), head).to(at::kFloat);
    return at::cross_entropy_loss(logits, targets.flatten(), {}, at::Reduction::Sum, /*ignore_index=*/-1);
  }

  // Moves the bf16 gradients of one micro-batch into the fp32 sums.
  void accumulate(bool first) {
    for (std::size_t i = 0; i < computed.size(); ++i) {
      Tensor& fresh = computed[i].mutable_grad();
      first ? gradients[i].copy_(fresh) : gradients[i].add_(fresh);
      fresh.reset();
    }
  }

  void update() {
    at::NoGradGuard no_grad;
    if (!low_precision) {
      gradients.clear();
      for (const Tensor& p : computed) gradients.push_back(p.grad());
    }
    const Tensor norm_of_all = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients)));
    grad_norm = norm_of_all.item<double>();
    step_counts[0].add_(1);
    // AdamW divides by grad_scale on its way, which spares a pass over the gradients.
    const Tensor divisor = at::scalar_tensor(std::max(1.0, grad_norm / c.clip_norm), at::kFloat);
    at::_fused_adamw_(masters, gradients, first_moments, second_moments, {}, step_counts, c.learning_rate,
                      c.beta1, c.beta2, c.weight_decay, c.epsilon, /*amsgrad=*/false, /*maximize=*/false,
                      divisor);
    if (low_precision) {
      at::_foreach_copy_(computed, masters);
    } else {
      for (Tensor& p : computed) p.mutable_grad().reset();
    }
  }

  const Config c;
  const bool low_precision;
  Tensor embedding, norm, head, cos, sin;
  std::vector<Layer> layers;
  Tensors masters, computed, gradients, first_moments, second_moments, step_counts;
  double loss = 0, grad_norm = 0;
};

BareStep::BareStep(const Config& config) {
  at::set_num_threads(1);
  state_ = std::make_unique<State>(config);
}
BareStep::~BareStep() = default;

void BareStep::step(const std::int64_t* tokens, const std::int64_t* targets) {
  const Config& c = state_->c;
  const std::int64_t num_targets = c.batch * c.sequence;
  const auto valid = num_targets - std::count(targets, targets + num_targets, -1);
  Tensor loss = at::zeros({});
  for (std::int64_t first = 0; first < c.batch; first += c.micro_batch) {
    const std::int64_t samples = std::min(c.micro_batch, c.batch - first), offset = first * c.sequence;
    const auto rows = [&](const std::int64_t* all) {
      return at::from_blob(const_cast<std::int64_t*>(all + offset), {samples, c.sequence}, at::kLong);
    };
    const Tensor part = state_->loss_sum(rows(tokens), rows(targets)) / double(valid);
    part.backward();
    if (state_->low_precision) state_->accumulate(first == 0);
    loss += part.detach();
  }
  state_->update();
  state_->loss = loss.item<double>();
}

double BareStep::loss() const { return state_->loss; }
double BareStep::grad_norm() const { return state_->grad_norm; }
std::int64_t BareStep::num_parameters() const {
  std::int64_t total = 0;
  for (const Tensor& p : state_->masters) total += p.numel();
  return total;
}

}  // namespace bare
