// How far a long reading or writing is, how fast, and for how long still. One line on a terminal, drawn in
// place; nothing in a pipe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tessera/metrics/display/frame.hpp"

namespace tessera::metrics {

// What was done after `seconds`.
struct BytesDone {
  std::string what;  // "verifying"
  std::uint64_t done = 0, all = 0;
  double seconds = 0;
  std::string unit = {};  // of what is counted; empty: bytes
};
StyledLine progress_line(const BytesDone& bytes, const Canvas& canvas);

class ProgressBar {
 public:
  // On standard error, if that is a terminal.
  explicit ProgressBar(std::string what, std::string unit = "");
  // Takes the line away.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Draws at most eight times a second.
  void update(std::uint64_t done, std::uint64_t all);
  // The same, for those who tell how far they are; while this lives.
  std::function<void(std::uint64_t done, std::uint64_t all)> progress() {
    return [this](std::uint64_t done, std::uint64_t all) { update(done, all); };
  }

 private:
  const bool is_live_;
  const double begin_seconds_;
  double drawn_seconds_ = 0;
  BytesDone bytes_;
};

}  // namespace tessera::metrics
