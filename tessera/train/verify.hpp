// Is a layout equal to one device? Runs it in fp64 and compares loss, every gradient, the norm, the
// parameters after some steps, and the replicas bit by bit.
#pragma once

#include <string>
#include <vector>

#include "tessera/collective/group.hpp"
#include "tessera/spec/spec.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

struct Comparison {
  std::string what;  // loss, norm, or the tensor's name
  std::string kind;  // number, gradient, parameter
  double error = 0;
  bool zero_in_theory = false;  // under 1e-6 of the whole gradient's RMS: listed, not judged
};

struct Verification {
  std::vector<Comparison> comparisons;
  double worst_relative_error = 0;
  bool replicas_equal = true;
  double tolerance = 1e-10;
  std::int64_t num_ranks = 1, num_micro = 1;
  std::string schedule;  // of the pipeline, if there is one
  std::string shrunk;    // how the model was made smaller; empty: it wasn't
  bool passed() const { return worst_relative_error <= tolerance && replicas_equal; }
};

inline constexpr int kVerifySteps = 3;

// The run in fp64, cut down to what verifies in seconds; `note` says how.
spec::Run shrunk_for_verification(const spec::Run& run, std::string& note);

// Verifies on the ranks of a communicator, which are as many as the layout has; the result is whole on rank 0.
// `damaged` makes it go wrong: a proof that can't notice that proves nothing.
Verification verify(const spec::Run& run, const collective::Communicator& communicator,
                    const std::optional<Damaged>& damaged = std::nullopt);

// The same with threads as ranks.
Verification verify_on_threads(const spec::Run& run, const std::optional<Damaged>& damaged = std::nullopt);

// Every comparison as a table, and a verdict.
std::string to_text(const Verification& verification);

}  // namespace tessera::train
