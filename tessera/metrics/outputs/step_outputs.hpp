// Everything that rank 0 writes while a run goes on: lines or the live display, metrics.jsonl, event files,
// the endpoint.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/listen_address.hpp"
#include "tessera/metrics/display/frame.hpp"

namespace tessera::metrics {

struct OutputOptions {
  std::string folder;  // of metrics.jsonl and tensorboard/; empty: neither
  bool lines = true;   // the display where standard output is a terminal, else a line a step
  std::optional<ListenAddress> listen;
  std::int64_t kept_steps = 0;  // what an earlier run wrote of these steps stays
  RunTitle title;
  // A standard output that has taken nothing for so long is told of; it never holds up the run.
  double patience_seconds = 60;
};

class StepOutputs {
 public:
  // Throws UserError when something can't be written, for a reason that doesn't pass, or listened on; an
  // earlier run's files are then as they were.
  explicit StepOutputs(const OutputOptions& options);
  ~StepOutputs();
  // Files that the disk refuses are told of, and tried again at the next step.
  void add(const StepFacts& facts);
  // The last that is written. Returns what the files lack, a sentence for each that is incomplete.
  std::vector<std::string> finish();
  // A line for whoever watches.
  void tell(const std::string& text);

 private:
  void tell_news();

  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tessera::metrics
