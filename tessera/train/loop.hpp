// How does a run go? The loop over steps: a line a step, metrics.jsonl, the trace, and a summary.
#pragma once

#include <string>

#include "tessera/collective/group.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::train {

struct LoopOptions {
  std::string folder;  // where metrics.jsonl goes; empty: nowhere
  std::string trace;   // file of the trace; empty: none
  bool lines = true;   // a line a step on standard output, from rank 0
};

struct Summary {
  std::int64_t steps = 0, parameters = 0, ranks = 1;
  double first_loss = 0, last_loss = 0, mean_loss_of_last_ten = 0;
  double tokens_per_second = 0;  // median over the steps after the first
  double step_seconds = 0;       // median likewise
  double seconds = 0;
  std::int64_t steps_not_taken = 0;
};

// Trains for training.steps on the ranks of the communicator; the result is the same on all.
Summary train(const spec::Run& run, const collective::Communicator& communicator, const LoopOptions& options);

}  // namespace tessera::train
