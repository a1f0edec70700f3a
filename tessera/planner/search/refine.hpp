// Prices layouts as what they would run: compiled programs, replayed and simulated, the most promising first.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/planner/fit/fit.hpp"
#include "tessera/planner/search/search.hpp"
#include "tessera/planner/search/trial.hpp"

namespace tessera::planner {

// How much is simulated.
struct Effort {
  std::size_t least = 0;       // layouts that are simulated even if none of them can be the best
  std::uint64_t most_ops = 0;  // of programs, after which the best so far is taken; 0: no end
};

// What is known when a search ends.
struct Outcome {
  std::vector<Refined> fitting;  // fastest first
  std::int64_t simulated = 0;    // layouts, those that did not fit among them
  double gap = 0;        // by what share a layout that was not simulated could be faster than the best
  bool ran_out = false;  // of layouts: all that the search kept were simulated
};

// Says how far a search is: layouts simulated, the best step so far, and what no other can be below.
using Progress = std::function<void(std::int64_t simulated, double best, double least)>;

// Note [Best first]
// Layouts are compiled and simulated in the order of their bounds, until the bound of the next one is no less
// than the best that fits: no layout that was not simulated is faster. Some go on to be simulated for the
// sake of the table, until it has kAlternatives meshes. Of many micro-batches few are simulated, and the
// others take as long as one more does; one that is slower than the best with few, the others at their bound,
// is left there. Programs that are too large even without slots are not simulated. If `most_ops` are spent,
// `gap` says what is not known.
Outcome best_first(const spec::Run& run, const Found& found, const Cluster& cluster, const Limits& limits,
                   const Fit& fit, const Effort& effort, const Progress& progress = nullptr);

// One layout as the run has it, whether it fits or not.
Refined refine_one(const spec::Run& run, const Cluster& cluster, const Fit& fit);

// Whether the closed form is the price of a layout: of a fitted stack, whose error was measured, and on
// unequal devices, which the simulator takes for equal.
bool is_by_form(const Cluster& cluster, const Fit& fit);

// The layout as a run that a fit can predict.
MeasuredRun measured_run(const Candidate& candidate, const Cluster& cluster);

}  // namespace tessera::planner
