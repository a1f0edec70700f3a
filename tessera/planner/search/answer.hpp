// What a search reports: how long, how much, what is left, and why the others lose.
#pragma once

#include <string>
#include <vector>

#include "tessera/planner/fit/fit.hpp"
#include "tessera/planner/search/refine.hpp"
#include "tessera/planner/search/sizes.hpp"

namespace tessera::planner {

// One layout in numbers.
struct Answer {
  Refined refined;
  Prediction step;  // seconds, with the interval of the fit
  double mfu = 0;   // share of the peak that the model's own FLOPs are
  double tokens_per_second = 0;
  RunLength length;          // for all tokens
  std::string why_it_loses;  // empty: the best
};

struct Plan {
  Cluster cluster;
  double idle_devices = 0;  // all of them would not be faster
  double tokens = 0;        // to train on
  double limit_bytes = 0;
  std::vector<Answer> answers;  // the best, and its nearest alternatives
  std::string
      too_large;  // of the fastest layout that does not fit: what is over, and the cheapest fix; or empty
  Certificate certificate;
  bool is_fitted = false;   // to measured runs; else by data sheets
  bool is_searched = true;  // else the run's own layout alone, whether it fits or not
  bool fits() const { return answers.front().refined.most_bytes() <= limit_bytes; }
  std::vector<Scaled> sizes;  // other objectives than time: what was chosen from
};

struct Ask {
  double tokens = 0;        // 0: what training.steps makes
  std::size_t answers = 8;  // that are given, at most
  Objective objective = Objective::time;
  double within_days = 0;  // other objectives than time: how long the run may take, or 0
  Pins pins = {};          // what the search leaves as the run has it
  Effort effort = {.most_ops = 20'000'000};
  Progress progress = nullptr;
};

// Searches, simulates and explains: the fastest layout of the whole cluster or, by another objective, of as
// many of its devices as are best. How many answers are asked for changes nothing but their number. Throws
// UserError, with what is missing, if nothing fits.
Plan plan(const spec::Run& run, const Cluster& cluster, const Fit& fit, const Ask& ask);

// The same of the layout that the run has, without a search.
Plan as_it_is(const spec::Run& run, const Cluster& cluster, const Fit& fit, const Ask& ask);

// The run with an answer's layout on the devices of the plan, as a file for train.
spec::Run run_of(const spec::Run& run, const Plan& plan, const Answer& answer);

std::string certificate_text(const Certificate& certificate);
std::string to_text(const Plan& plan, bool explain);

}  // namespace tessera::planner
