// What a person is told of a search: how long, how much, what is left, and why the others lose.
#pragma once

#include <string>
#include <vector>

#include "tessera/planner/fit/fit.hpp"
#include "tessera/planner/search/refine.hpp"

namespace tessera::planner {

// One layout in numbers.
struct Answer {
  Refined refined;
  Prediction step;  // seconds, with the interval of the fit
  double mfu = 0;   // share of the peak that the model's own FLOPs are
  double tokens_per_second = 0;
  double days = 0;              // for all tokens, with what failures cost
  double dollars = 0;           // 0: no price is known
  double lost_to_failures = 0;  // share of the time
  std::string why_it_loses;     // empty: the best
};

struct Plan {
  Cluster cluster;
  double tokens = 0;  // to train on
  double limit_bytes = 0;
  std::vector<Answer> answers;  // the best, and its nearest alternatives
  std::string
      too_large;  // of the fastest layout that does not fit: what is over, and the cheapest fix; or empty
  Certificate certificate;
  bool is_fitted = false;  // to measured runs; else by data sheets
};

struct Ask {
  double tokens = 0;        // 0: what training.steps makes
  std::size_t answers = 8;  // compiled and simulated
};

// Searches, refines and explains. Throws UserError, with what is missing, if nothing fits.
Plan plan(const spec::Run& run, const Cluster& cluster, const Fit& fit, const Ask& ask);

// The same of the layout that the run has, without a search.
Plan as_it_is(const spec::Run& run, const Cluster& cluster, const Fit& fit, const Ask& ask);

// The run with an answer's layout, as a file for train.
spec::Run run_of(const spec::Run& run, const Answer& answer);

// The best step on other numbers of devices, by the closed form alone.
struct Scaled {
  double devices = 0, step_seconds = 0, tokens_per_second = 0, dollars_per_step = 0;
  std::string layout;
};
std::vector<Scaled> scaled(const spec::Run& run, const Cluster& cluster, const Constants& constants,
                           const std::vector<double>& devices);

// "pp 8, tp 8, dp 16, zero 1, 1f1b, micro-batch 1".
std::string layout_text(const spec::Layout& layout);
// The keys by which it differs from the defaults: "layout.pp=8".
std::vector<std::string> layout_keys(const spec::Layout& layout);

std::string certificate_text(const Certificate& certificate);
std::string to_text(const Plan& plan, bool explain);

}  // namespace tessera::planner
