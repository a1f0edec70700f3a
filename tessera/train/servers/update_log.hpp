// The log of a run whose workers do not wait for each other: every push that was applied, in its order, as
// JSON lines. What was computed is a function of it and of the run file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/metrics/outputs/json_lines.hpp"
#include "tessera/train/servers/team.hpp"

namespace tessera::train {

inline constexpr char kUpdateLogName[] = "updates.jsonl";

// A gradient that was applied.
struct Push {
  std::int64_t number = 0;   // counted from 1
  WorkerStep of;             // whose it is
  std::int64_t version = 0;  // pushes that the weights had seen which it was computed with
  bool taken = true;         // false: it was not finite, and nothing changed
  double loss = 0, gradient_norm = 0;
  double seconds = 0;  // since the run began
};

struct UpdateHistory {
  std::int64_t workers = 0, first = 1;  // of the pushes, their number
  std::vector<Push> pushes;
  std::int64_t most_ahead = 0;  // updates that a worker was ahead of the slowest when it got its weights
  std::string bits;             // of the weights after the last of them; empty: the run did not end
};

class UpdateLog {
 public:
  // Keeps what is there of the first `kept` pushes.
  UpdateLog(const std::string& folder, std::int64_t workers, std::int64_t kept);
  void add(const Push& push);
  void lose(std::int64_t number, int worker);
  void end(std::int64_t number, const std::string& bits);
  // What to tell the user, and what the file lacks, since the last call.
  std::vector<std::string> take_news() { return lines_.file().take_news(); }

 private:
  metrics::JsonLines lines_;
};

// Throws UserError for what is no such log.
UpdateHistory read_update_log(const std::string& path);

}  // namespace tessera::train
