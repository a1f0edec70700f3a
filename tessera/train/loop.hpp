// Runs training: the loop over steps, what is reported of them, the trace, and a summary.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/bytes_moved.hpp"
#include "tessera/base/process/activity.hpp"
#include "tessera/base/process/phase_timer.hpp"
#include "tessera/base/process/restart_log.hpp"
#include "tessera/base/process/stop_request.hpp"
#include "tessera/collective/attendance.hpp"
#include "tessera/metrics/step_facts.hpp"
#include "tessera/spec/spec.hpp"
#include "tessera/train/fits.hpp"

namespace tessera::train {

struct LoopOptions {
  std::string name;              // of the run, for people
  std::string folder;            // where metrics.jsonl and tensorboard/ go; empty: nowhere
  std::string trace;             // file of the trace; empty: none
  std::string checkpoints = "";  // where they are saved and found; empty: nowhere
  std::string from = "";         // train/resume.hpp
  Accepted accepted = {};        // likewise
  bool lines = true;             // rank 0 tells of the steps on standard output: a display, or a line a step
  // Resident bytes of all ranks, asked on rank 0 after each step; empty: those of this process.
  std::function<std::vector<std::int64_t>()> resident_bytes = nullptr;
  // The most that tensors of each rank held in its last step; empty: of this rank.
  std::function<std::vector<std::int64_t>()> peak_bytes = nullptr;
  PhaseTimer start = PhaseTimer();                     // parts of the start that are over
  ActivityLog* log = nullptr;                          // where this rank writes what it is doing
  const collective::Attendance* attendance = nullptr;  // where replicas may be lost and come back
  StopRequest* stop = nullptr;  // looked at between steps; what one rank is asked, all do
  // What earlier starts of the ranks have left; null where nobody starts them again.
  RestartLog* restarts = nullptr;
};

struct Summary {
  std::int64_t steps = 0, parameters = 0, ranks = 1;
  std::int64_t resumed_after = 0;  // steps that an earlier run made
  bool is_told_here = false;       // by this rank, of all that have it
  double first_loss = 0, last_loss = 0, mean_loss_of_last_ten = 0;
  double tokens_per_second = 0;  // median over the steps after the first
  double step_seconds = 0;       // median likewise
  double seconds = 0;
  std::int64_t steps_not_taken = 0;
  std::optional<metrics::EvaluationFacts> evaluation;  // the last one
  std::vector<std::string> incomplete;  // of the outputs: what a disk refused to the end, a sentence each
  BytesMoved moved;                     // by this rank in the last step
  std::int64_t peak_bytes = 0;  // the most that tensors of a rank held, of the ranks that this one can see
  PhaseTimer start = PhaseTimer(0);  // to the end of the first step, as this rank saw it
};

// Trains for training.steps on the ranks of the communicator; the result is the same on all but for its
// times.
Summary train(const spec::Run& run, const collective::Communicator& communicator, const LoopOptions& options);

}  // namespace tessera::train
