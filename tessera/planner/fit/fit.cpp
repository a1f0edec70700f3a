#include "tessera/planner/fit/fit.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/base/random.hpp"
#include "tessera/planner/fit/cholesky.hpp"

namespace tessera::planner {
namespace {

constexpr double kLikeness = 0.08;  // standard deviation of what the closed form gets wrong
constexpr double kNoise = 0.04;
constexpr double kFourOfFive = 1.2816;
constexpr std::size_t kManyRuns = 40;  // from here on noise is what the residuals say

using Slope = std::array<double, kKnobs.size()>;

double seconds_by(const MeasuredRun& run, const Constants& constants) {
  return estimate(run.work, run.device, run.network, constants).step;
}

Slope slope_at(const MeasuredRun& run, const Constants& constants) {
  constexpr double kStep = 1e-3;
  const double here = std::log(seconds_by(run, constants));
  Slope out{};
  for (std::size_t i = 0; i < kKnobs.size(); ++i) {
    Constants moved = constants;
    moved.*kKnobs[i].value *= std::exp(kStep);
    out[i] = (std::log(seconds_by(run, moved)) - here) / kStep;
  }
  return out;
}

// How far two runs lie apart, in units in which 1 is a little alike.
double distance_squared(const MeasuredRun& one, const MeasuredRun& other) {
  const Workload &a = one.work, &b = other.work;
  const auto times = [](double x, double y, double scale) {
    const double d = std::log2(x / y) / scale;
    return d * d;
  };
  const auto differ = [](bool is_other, double scale) { return is_other ? scale * scale : 0; };
  return times(a.hidden, b.hidden, 2) + times(a.layers, b.layers, 4) + times(a.sequence, b.sequence, 3) +
         times(a.tp, b.tp, 1.5) + times(a.pp, b.pp, 2.5) +
         times(a.micro_batch * a.sequence, b.micro_batch * b.sequence, 3) +
         times(a.micro_batch, b.micro_batch, 3) + times(a.devices, b.devices, 6) + times(a.cp, b.cp, 2) +
         times(a.virtual_stages, b.virtual_stages, 3) + times(a.micro_batches(), b.micro_batches(), 4) +
         times(std::max(1.0, a.ep), std::max(1.0, b.ep), 2) +
         differ((a.recompute == Recomputed::full) != (b.recompute == Recomputed::full), 1) +
         differ((a.recompute == Recomputed::attention) != (b.recompute == Recomputed::attention), 1) +
         differ(a.sequence_parallel != b.sequence_parallel, 0.7) + differ(a.eager != b.eager, 1) +
         differ(a.overlaps_tp != b.overlaps_tp, 1) + differ((a.fp8 == Fp8::none) != (b.fp8 == Fp8::none), 1) +
         differ((a.fp8 == Fp8::rowwise) != (b.fp8 == Fp8::rowwise), 1) +
         differ(one.kernels != other.kernels || a.order != b.order, 1);
}

double covariance_of(const MeasuredRun& a, const Slope& slope_a, const MeasuredRun& b, const Slope& slope_b) {
  double out = kLikeness * kLikeness * std::exp(-distance_squared(a, b) / 2);
  for (std::size_t i = 0; i < kKnobs.size(); ++i)
    out += slope_a[i] * slope_b[i] * kKnobs[i].spread * kKnobs[i].spread;
  return out;
}

Matrix covariances(std::span<const MeasuredRun> runs, std::span<const Slope> slopes, double noise) {
  Matrix out(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (std::size_t j = 0; j <= i; ++j)
      out.at(i, j) = out.at(j, i) =
          covariance_of(runs[i], slopes[i], runs[j], slopes[j]) + (i == j ? noise * noise : 0);
  return out;
}

// What the constants differ from 1 by, as logarithms.
Slope logs_of(const Constants& constants) {
  Slope out{};
  for (std::size_t i = 0; i < kKnobs.size(); ++i) out[i] = std::log(constants.*kKnobs[i].value);
  return out;
}

}  // namespace

Fit::Fit(std::vector<MeasuredRun> runs) : runs_(std::move(runs)) {
  const std::size_t n = runs_.size();
  if (n == 0) return;
  double noise = kNoise;
  const auto residuals_and_weights = [&](std::vector<double>& weights) {
    slopes_.clear();
    for (const MeasuredRun& run : runs_) slopes_.push_back(slope_at(run, constants_));
    const Slope logs = logs_of(constants_);
    std::vector<double> residuals(n);
    for (std::size_t i = 0; i < n; ++i) {
      residuals[i] = std::log(runs_[i].seconds) - std::log(seconds_by(runs_[i], constants_));
      for (std::size_t k = 0; k < kKnobs.size(); ++k) residuals[i] += slopes_[i][k] * logs[k];
    }
    const Cholesky factor(covariances(runs_, slopes_, noise));
    weights = factor.solve(residuals);
    return factor;
  };
  constexpr int kRounds = 25;
  for (int round = 0; round < kRounds; ++round) {
    residuals_and_weights(weights_);
    const Slope logs = logs_of(constants_);
    double largest = 0;
    Slope move{};
    for (std::size_t k = 0; k < kKnobs.size(); ++k) {
      double target = 0;
      for (std::size_t i = 0; i < n; ++i) target += slopes_[i][k] * weights_[i];
      move[k] = target * kKnobs[k].spread * kKnobs[k].spread - logs[k];
      largest = std::max(largest, std::abs(move[k]));
    }
    const double share = largest > 0.5 ? 0.5 / largest : 1;
    for (std::size_t k = 0; k < kKnobs.size(); ++k) constants_.*kKnobs[k].value *= std::exp(share * move[k]);
    if (n >= kManyRuns) {
      double squares = 0;
      for (const MeasuredRun& run : runs_) {
        const double off = std::log(run.seconds / seconds_by(run, constants_));
        squares += off * off;
      }
      noise = std::max(kNoise, std::sqrt(squares / static_cast<double>(n)));
    }
    if (largest < 1e-4) break;
  }
  const Cholesky factor = residuals_and_weights(weights_);
  noise_ = noise;
  factor_.emplace(factor);
}

Prediction Fit::predict(const MeasuredRun& run) const {
  const Slope own = slope_at(run, constants_);
  double variance = covariance_of(run, own, run, own) + noise_ * noise_, more = 0;
  if (!runs_.empty()) {
    std::vector<double> with(runs_.size());
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      with[i] = covariance_of(run, own, runs_[i], slopes_[i]);
      more += kLikeness * kLikeness * std::exp(-distance_squared(run, runs_[i]) / 2) * weights_[i];
    }
    for (const double part : factor_->lower(with)) variance -= part * part;
  }
  const double seconds = seconds_by(run, constants_) * std::exp(more);
  const double width = kFourOfFive * std::sqrt(std::max(variance, noise_ * noise_));
  return {seconds, seconds * std::exp(-width), seconds * std::exp(width)};
}

std::array<Prediction, kKnobs.size()> Fit::intervals() const {
  std::array<Prediction, kKnobs.size()> out;
  for (std::size_t k = 0; k < kKnobs.size(); ++k) {
    const double spread = kKnobs[k].spread, value = constants_.*kKnobs[k].value;
    double variance = spread * spread;
    if (!runs_.empty()) {
      std::vector<double> with;
      for (const Slope& slope : slopes_) with.push_back(slope[k] * spread * spread);
      for (const double part : factor_->lower(with)) variance -= part * part;
    }
    const double width = kFourOfFive * std::sqrt(std::max(variance, 0.0));
    out[k] = {value, value * std::exp(-width), value * std::exp(width)};
  }
  return out;
}

std::vector<std::size_t> runs_to_measure(std::span<const MeasuredRun> runs, std::size_t count,
                                         std::uint64_t seed) {
  constexpr double kOtherQuality = 0.3;
  const std::size_t n = runs.size();
  std::vector<Slope> slopes;
  for (const MeasuredRun& run : runs) slopes.push_back(slope_at(run, {}));
  Matrix left = covariances(runs, slopes, 0);
  std::vector<std::size_t> out;
  while (out.size() < std::min(count, n)) {
    std::size_t best = n;
    double most = -1;
    for (std::size_t i = 0; i < n; ++i) {
      if (std::ranges::find(out, i) != out.end()) continue;
      double gain = 0;
      for (std::size_t j = 0; j < n; ++j) gain += left.at(j, i) * left.at(j, i);
      gain /= left.at(i, i) + kNoise * kNoise;
      if (!runs[i].quality.empty() && !runs[i].quality.starts_with('A')) gain *= kOtherQuality;
      gain *= 1 + 1e-9 * random_uniform(seed, 0, i);
      if (gain > most) most = gain, best = i;
    }
    out.push_back(best);
    const double variance = left.at(best, best) + kNoise * kNoise;
    std::vector<double> column(n);
    for (std::size_t j = 0; j < n; ++j) column[j] = left.at(j, best);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) left.at(i, j) -= column[i] * column[j] / variance;
  }
  return out;
}

}  // namespace tessera::planner
