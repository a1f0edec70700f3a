// Measures how far a layout's outcome is from one device's, and what the difference looks like.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/program/ir/types.hpp"
#include "tessera/verify/outcome.hpp"

namespace tessera::train {

struct Comparison {
  std::string what;  // loss, norm, or the tensor's name
  std::string kind;  // number, gradient, parameter
  double error = 0;
  // Listed, not judged: a gradient that is zero in theory, here and on one device (kZeroInTheory), or a
  // parameter whose gradients are so in all steps and that is no farther off than updates can move it. AdamW
  // divides a gradient by its own size, so one of rounding moves a parameter as much as any other.
  bool zero_in_theory = false;
  bool is_finite = true;           // on one device. What is not finite in the same way here has no error
  double found = 0, expected = 0;  // of a number; of a tensor the element where they differ most
  std::optional<double> ratio;     // found is this multiple of what is expected, if it is a multiple
};

// Numbers, then tensors in `order`.
std::vector<Comparison> compare(const Outcome& found, const Outcome& expected,
                                std::span<const std::string> order);

// The largest error that is judged; infinite if one is no number.
double worst_of(std::span<const Comparison> comparisons);

// Which of them went wrong first: the loss of the first step, then gradients as the backward makes them, from
// the last parameter of the computation to the first, then what follows from these. Nothing if all are within
// the tolerance.
const Comparison* first_wrong(std::span<const Comparison> comparisons, double tolerance);

// Parameters in the order of the computation.
std::vector<std::string> computed_order(const program::Tables& tables);

// How a parameter lies on the ranks: "dp_replicate R, tp S(0), in 2 slices over shard".
std::string placement_text(const std::string& parameter, const program::Tables& tables);

// What a ratio of found to expected usually comes from, in words; of no ratio too.
std::string cause_of(std::optional<double> ratio, const program::Tables& tables);

}  // namespace tessera::train
