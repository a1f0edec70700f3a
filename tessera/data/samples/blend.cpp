#include "tessera/data/samples/blend.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "tessera/base/error.hpp"

namespace tessera::data {
namespace {

// Whole numbers in the ratio of the weights, if they are decimals with few digits.
std::optional<std::vector<std::uint32_t>> exact_parts(std::span<const double> weights) {
  for (double scale = 1; scale < 1e8; scale *= 10) {
    std::vector<std::uint64_t> parts;
    for (const double weight : weights) {
      const double x = weight * scale;
      if (x > 1e15 || std::abs(x - std::round(x)) > 1e-9 * x) break;
      parts.push_back(static_cast<std::uint64_t>(std::round(x)));
    }
    if (parts.size() < weights.size()) continue;
    std::uint64_t divisor = 0, sum = 0;
    for (const std::uint64_t part : parts) divisor = std::gcd(divisor, part);
    for (std::uint64_t& part : parts) sum += part /= divisor;
    if (sum > Blend::kMostParts) return std::nullopt;
    return std::vector<std::uint32_t>(parts.begin(), parts.end());
  }
  return std::nullopt;
}

// Parts that add up to kMostParts; what is left by rounding down goes to those that lost most.
std::vector<std::uint32_t> rounded_parts(std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::uint32_t> parts;
  std::vector<std::pair<double, std::size_t>> lost;
  std::uint32_t left = Blend::kMostParts;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double share = weights[i] / sum * Blend::kMostParts;
    parts.push_back(static_cast<std::uint32_t>(share));
    lost.emplace_back(parts.back() - share, i);
    left -= parts.back();
  }
  std::ranges::sort(lost);
  for (std::uint32_t i = 0; i < left; ++i) ++parts[lost[i % lost.size()].second];
  return parts;
}

std::vector<std::uint32_t> parts_of(std::span<const double> weights) {
  TESSERA_CHECK(!weights.empty() && weights.size() <= std::numeric_limits<std::uint16_t>::max(),
                weights.size(), " sources");
  for (const double weight : weights)
    if (!(weight > 0) || !std::isfinite(weight))
      throw UserError(cat("a source has weight ", weight, "; weights are numbers above 0"));
  auto parts = exact_parts(weights).value_or(std::vector<std::uint32_t>());
  if (parts.empty()) parts = rounded_parts(weights);
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i] == 0)
      throw UserError(cat("source ", i + 1, " has weight ", weights[i], ", less than one sample in ",
                          Blend::kMostParts, ". Leave it out, or raise its weight."));
  return parts;
}

}  // namespace

// Tijdeman's rule of the chairman assignment problem (1980): of the sources that are behind by at least
// 1/(2n - 2) samples, the one whose lag would soonest reach the bound 1 - 1/(2n - 2). All in whole numbers:
// the lag counts in parts of a sample. After a period every lag is 0, so that it begins anew.
Blend::Blend(std::span<const double> weights) : parts_(parts_of(weights)) {
  const auto period = std::accumulate(parts_.begin(), parts_.end(), std::int64_t{0});
  const auto n = static_cast<std::int64_t>(parts_.size());
  const std::int64_t steps = n == 1 ? 1 : 2 * n - 2;  // of a lag, to a sample
  sources_.reserve(static_cast<std::size_t>(period));
  ordinals_.reserve(static_cast<std::size_t>(period));
  std::vector<std::int64_t> lags(parts_.size(), 0);
  std::vector<std::uint32_t> counts(parts_.size(), 0);
  for (std::int64_t sample = 0; sample < period; ++sample) {
    std::size_t chosen = parts_.size();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      lags[i] += steps * parts_[i];
      if (n > 1 && lags[i] < period) continue;
      const auto room = [&](std::size_t of) { return (steps - 1) * period - lags[of]; };
      // room / parts is the time that is left; parts are below 2^23, and room is below 2^40.
      if (chosen == parts_.size() || room(i) * parts_[chosen] < room(chosen) * parts_[i]) chosen = i;
    }
    TESSERA_CHECK(chosen < parts_.size(), "no source for sample ", sample);
    lags[chosen] -= steps * period;
    sources_.push_back(static_cast<std::uint16_t>(chosen));
    ordinals_.push_back(counts[chosen]++);
  }
}

BlendPlace Blend::at(std::uint64_t sample) const {
  const std::size_t source = sources_[sample % period()];
  return {source, sample / period() * parts_[source] + ordinals_[sample % period()]};
}

}  // namespace tessera::data
