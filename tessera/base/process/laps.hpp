// How long did each part of something take? Parts follow each other without a gap.
#pragma once

#include <string>
#include <vector>

#include "tessera/base/clock.hpp"

namespace tessera {

struct Lap {
  std::string name;
  double seconds = 0;
};

class Laps {
 public:
  explicit Laps(double begin_seconds = now_seconds()) : begin_(begin_seconds), last_(begin_seconds) {}

  // The part since the last end is over.
  void end(std::string name, double at_seconds = now_seconds()) {
    laps_.push_back({std::move(name), at_seconds - last_});
    last_ = at_seconds;
  }
  const std::vector<Lap>& laps() const { return laps_; }
  double total_seconds() const { return last_ - begin_; }

 private:
  double begin_, last_;
  std::vector<Lap> laps_;
};

// When a process was started, on the clock of now_seconds(), to a hundredth of a second; now, where that
// can't be read.
double process_start_seconds(int pid);

}  // namespace tessera
