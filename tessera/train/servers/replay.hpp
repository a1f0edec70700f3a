// Replays a run whose workers do not wait for each other: its updates once more, in the order of its log.
#pragma once

#include <optional>
#include <string>

#include "tessera/train/servers/update_log.hpp"

namespace tessera::train {

struct Replayed {
  std::int64_t pushes = 0, workers = 0;
  std::string bits, expected_bits;  // of the weights after the last update: of the replay, and of the run
  // The first push whose loss or norm of the gradient is another than the log's.
  std::optional<std::int64_t> first_other;
  std::int64_t most_ahead = 0;  // updates that a worker was ahead of the slowest when it got its weights
  std::optional<std::int64_t> allowed_ahead;
  double mean_versions = 0;  // updates between the weights that a gradient is of and those that it changed
  bool is_too_far_ahead() const { return allowed_ahead && most_ahead > *allowed_ahead; }
  bool passed() const { return bits == expected_bits && !first_other && !is_too_far_ahead(); }
};

// On the ranks of one worker and its servers, as threads of this process: each gradient is computed again
// with the weights that it was computed with, and applied to those of its turn. Throws UserError for a log
// that is not whole, or of another run.
Replayed replay(const spec::Run& run, const UpdateHistory& history);

// A few lines for people.
std::string to_text(const Replayed& replayed);

}  // namespace tessera::train
