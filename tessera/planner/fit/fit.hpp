// Fits the constants of a stack to a few measured runs, and predicts others with an interval.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tessera/planner/fit/cholesky.hpp"
#include "tessera/planner/fit/runs_table.hpp"

namespace tessera::planner {

struct Prediction {
  double seconds = 0;
  double low = 0, high = 0;  // holds four of five
  bool operator==(const Prediction&) const = default;
};

// Note [How a stack is fitted]
// The logarithm of a step's time is that of the closed form, whose constants have a prior around 1 (kKnobs),
// plus what the closed form gets wrong, which is alike for runs that are alike (a Gaussian process over
// model, split and kernels, 8 %), plus noise of 4 %. Given a few runs the constants are those that are most
// likely, found by linearising again and again; the rest follows from the same covariances, the interval too.
// A run far from all measured ones is predicted by the constants alone.
class Fit {
 public:
  // Of no runs: the prior.
  explicit Fit(std::vector<MeasuredRun> runs = {});

  Prediction predict(const MeasuredRun& run) const;
  const Constants& constants() const { return constants_; }
  // Four of five, of kKnobs[i].
  std::array<Prediction, kKnobs.size()> intervals() const;
  const std::vector<MeasuredRun>& runs() const { return runs_; }

 private:
  std::vector<MeasuredRun> runs_;
  Constants constants_;
  std::vector<std::array<double, kKnobs.size()>>
      slopes_;                   // by run: of its logarithm, over those of the constants
  std::vector<double> weights_;  // by run: of what they say beyond the constants
  double noise_ = 0.04;
  std::optional<Cholesky> factor_;  // of the runs' covariances
};

// Which `count` of the runs to measure so that the others are predicted best: one after the other, the one
// that takes most variance from all of them, by the prior alone. Never looks at a time. Runs whose quality is
// not A count a third. The seed decides among equals.
std::vector<std::size_t> runs_to_measure(std::span<const MeasuredRun> runs, std::size_t count,
                                         std::uint64_t seed);

}  // namespace tessera::planner
