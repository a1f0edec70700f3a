// A lower bound of a step, from what the stages of a layout take.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tessera/planner/search/search.hpp"
#include "tessera/planner/search/unit_prices.hpp"

namespace tessera::planner {

// Some of the model's units in a row.
struct Row {
  std::span<const UnitSeconds> kinds;
  std::span<const std::size_t> kind_of;
  std::size_t size() const { return kind_of.size(); }
  const UnitSeconds& operator[](std::size_t i) const { return kinds[kind_of[i]]; }
};

// A stage of a pipeline, of a micro-batch: what it computes and waits for by itself.
struct StageSeconds {
  double forward = 0, input = 0, weight = 0;  // input: with what is recomputed
  double step = 0, carry = 0;
  double reduced = 0;  // gradients on the busiest lane, where each micro-batch reduces
  Row units;
  double backward() const { return input + weight; }
};

StageSeconds stage_of(const spec::Layout& layout, const Row& units);

// The bound of a whole step (Note [The bound of a step]). A value takes `hop` seconds from one stage to the
// next.
double step_bound(const Candidate& candidate, std::vector<StageSeconds> stages, double hop);

}  // namespace tessera::planner
