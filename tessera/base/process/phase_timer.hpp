// How long each phase of something took. Phases follow each other without a gap.
#pragma once

#include <string>
#include <vector>

#include "tessera/base/clock.hpp"

namespace tessera {

struct Phase {
  std::string name;
  double seconds = 0;
};

class PhaseTimer {
 public:
  explicit PhaseTimer(double begin_seconds = now_seconds()) : begin_(begin_seconds), last_(begin_seconds) {}

  // The phase since the last end is over.
  void end(std::string name, double at_seconds = now_seconds()) {
    phases_.push_back({std::move(name), at_seconds - last_});
    last_ = at_seconds;
  }
  const std::vector<Phase>& phases() const { return phases_; }
  double total_seconds() const { return last_ - begin_; }

 private:
  double begin_, last_;
  std::vector<Phase> phases_;
};

// When a process was started, on the clock of now_seconds(), to a hundredth of a second; now, where that
// can't be read.
double process_start_seconds(int pid);

}  // namespace tessera
