// Compares predicted with measured runs, stack by stack, beside two simple predictions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/planner/fit/fit.hpp"

namespace tessera::planner {

// One run that was predicted and not fitted to.
struct Compared {
  std::string id;
  double measured = 0;
  Prediction predicted;
  double by_constant = 0;  // seconds, if all runs of the stack reached the same share of the peak
  double by_persistence =
      0;  // seconds, if the same layout scaled without loss; by_constant where none was fitted to
  double devices = 0;
  bool operator==(const Compared&) const = default;
};

struct Errors {
  std::size_t rows = 0, layouts = 0;  // predicted; different ones among them, the number of devices left out
  double mean_abs_error = 0, median = 0, p90 = 0, max = 0, bias = 0;  // of predicted over measured, less 1
  double coverage_80 = 0;                                             // share that the intervals hold
  double baseline_constant = 0, baseline_persistence = 0;  // mean absolute errors of the simple predictions
  bool operator==(const Errors&) const = default;
};

struct MemoryErrors {
  std::size_t rows = 0;  // with a measured peak, predicted and not fitted to
  double mean_abs_error = 0;
  double constant_gib = 0;           // what libraries take, from the fitted runs
  std::size_t limited = 0;           // rows that say whether the run fitted
  double precision = 0, recall = 0;  // of "does not fit"
  bool operator==(const MemoryErrors&) const = default;
};

struct StackEvaluation {
  std::string stack;
  std::vector<std::string> fitted_to;  // ids
  std::size_t unusable = 0;
  Errors errors;
  MemoryErrors memory;
  std::vector<Compared> compared;
};

struct Evaluation {
  std::vector<StackEvaluation> stacks;
  Errors all;
  Errors large;                            // on at least 512 devices
  std::map<std::string, Errors> families;  // of devices: "A100"
};

// Each stack is fitted to `calibrate` of its runs (half of them if it has fewer than twice as many;
// runs_to_measure says which), and compared on all others. 0: on the data sheet alone.
Evaluation evaluate(const std::vector<MeasuredRun>& runs, std::size_t calibrate, std::uint64_t seed);

// Which layout would have been chosen, where a table has several for one model, length and number of devices:
// how much slower it was measured than the best. Fitted to the runs of the other models of its stack.
struct Choice {
  std::string group, chosen, best, by_rule;
  std::size_t layouts = 0;
  double regret = 0, rule_regret = 0,
         mean_regret = 0;  // of the choice, of the usual guidelines, of any layout
  bool operator==(const Choice&) const = default;
};
std::vector<Choice> choices(const std::vector<MeasuredRun>& runs);

}  // namespace tessera::planner
