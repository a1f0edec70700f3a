// Verifies many layouts one after the other with threads as ranks, and counts.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tessera/verify/verify.hpp"

namespace tessera::train {

struct LayoutTally {
  std::int64_t layouts = 0, passed = 0;
  double worst_relative_error = 0;
};

struct LayoutFailure {
  std::string layout;     // in words
  std::string fault;      // the first that differs, or the error that ended it
  std::string overrides;  // what to write after the run file to see it again
};

struct LayoutsVerification {
  LayoutTally all;
  // By trait and value: ("pp", "2"), ("schedule", "zb-v"), ...
  std::map<std::string, std::map<std::string, LayoutTally>> by_trait;
  std::vector<LayoutFailure> failures;
  std::int64_t not_finite = 0;  // layouts of which one device has numbers that are not finite
  std::size_t references = 0;   // runs on one device that served them all
  double tolerance = 0, seconds = 0;
  std::string bits;  // a hash of all that they computed, one after the other: equal bits, equal text
  bool passed() const { return all.passed == all.layouts; }
};

// Called after each layout with those done so far.
using Progress = std::function<void(const LayoutsVerification& so_far)>;

// Of runs that are small already (shrink.hpp), made from the given one. A layout that ends with an error
// counts as failed.
LayoutsVerification verify_layouts(const spec::Run& given, std::span<const spec::Run> runs,
                                   const Progress& progress,
                                   const collective::RunRanks& run_ranks = collective::run_ranks,
                                   int num_steps = kVerifySteps);

// By trait as a table that is Markdown too, the failures, and a verdict.
std::string to_text(const LayoutsVerification& verification);

}  // namespace tessera::train
