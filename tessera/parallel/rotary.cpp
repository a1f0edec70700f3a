#include "tessera/parallel/rotary.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::parallel {

using tensor::Tensor;

namespace {
constexpr double kTurn = 2 * 3.14159265358979323846;

// The channel pair, of head_dim / 2, that makes so many turns in the original context; between pairs.
double pair_with_turns(double turns, std::int64_t head_dim, const Frequencies& f) {
  return static_cast<double>(head_dim) * std::log(static_cast<double>(f.original_context) / (turns * kTurn)) /
         (2 * std::log(f.theta));
}

// How much of its own frequency a pair keeps; the rest is that of a slower one.
double kept_share(std::int64_t pair, std::int64_t head_dim, double frequency, const Frequencies& f) {
  switch (f.scaling) {
    case Scaling::linear:
      return 0;
    case Scaling::llama3: {
      const double turns = static_cast<double>(f.original_context) * frequency / kTurn;
      return std::clamp((turns - f.low) / (f.high - f.low), 0.0, 1.0);
    }
    case Scaling::yarn:
      break;
  }
  const double first = std::max(std::floor(pair_with_turns(f.high, head_dim, f)), 0.0);
  const double last =
      std::min(std::ceil(pair_with_turns(f.low, head_dim, f)), static_cast<double>(head_dim - 1));
  const double width = first == last ? 0.001 : last - first;
  return 1 - std::clamp((static_cast<double>(pair) - first) / width, 0.0, 1.0);
}

double frequency_of(std::int64_t pair, std::int64_t head_dim, const Frequencies& f) {
  const double own = 1.0 / std::pow(f.theta, 2.0 * static_cast<double>(pair) / static_cast<double>(head_dim));
  if (f.factor == 1) return own;
  const double kept = kept_share(pair, head_dim, own, f);
  return (1 - kept) * own / f.factor + kept * own;
}
}  // namespace

Rotary rotary(std::span<const std::int64_t> positions, std::int64_t head_dim, const Frequencies& frequencies,
              at::ScalarType dtype, at::Device device) {
  // Angles in fp32 unless the run is fp64: the tables of every other Llama are made so.
  const auto wide = tensor::wide(dtype);
  Tensor angle = tensor::empty({std::ssize(positions), 1, head_dim / 2}, at::kDouble);
  double* out = angle.mutable_data_ptr<double>();
  for (const std::int64_t p : positions)
    for (std::int64_t i = 0; i < head_dim / 2; ++i) {
      double frequency = frequency_of(i, head_dim, frequencies);
      if (wide == at::kFloat) frequency = static_cast<float>(frequency);
      const double turn = static_cast<double>(p) * frequency;
      *out++ = wide == at::kFloat ? static_cast<double>(static_cast<float>(turn)) : turn;
    }
  const auto made = [&](const Tensor& t) { return t.mul(frequencies.attention_factor).to(dtype).to(device); };
  const Tensor cosine = made(angle.cos());
  return {tensor::concatenate({cosine, cosine}, -1), made(angle.sin())};
}

}  // namespace tessera::parallel
