#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/optim/optimizer.hpp"

namespace tessera::optim {

double learning_rate(const spec::Training& training, std::int64_t step) {
  const double high = training.learning_rate, low = training.min_learning_rate;
  if (step < training.warmup_steps)
    return high * static_cast<double>(step + 1) / static_cast<double>(training.warmup_steps);
  const std::int64_t length = std::max<std::int64_t>(1, training.steps - training.warmup_steps);
  const double done =
      std::min(1.0, static_cast<double>(step - training.warmup_steps) / static_cast<double>(length));
  switch (training.decay) {
    case spec::Decay::constant:
      return high;
    case spec::Decay::linear:
      return high + (low - high) * done;
    case spec::Decay::cosine:
      return low + (high - low) * 0.5 * (1.0 + std::cos(std::numbers::pi * done));
    case spec::Decay::wsd: {
      const std::int64_t tail =
          training.decay_steps > 0 ? training.decay_steps : std::max<std::int64_t>(1, training.steps / 5);
      const std::int64_t into = step - (training.steps - tail);
      return into <= 0
                 ? high
                 : high + (low - high) * std::min(1.0, static_cast<double>(into) / static_cast<double>(tail));
    }
  }
  return high;
}

}  // namespace tessera::optim
