// Compares the numbers of a predicted and a measured panel.
#pragma once

#include <string>
#include <vector>

#include "tessera/draw/picture.hpp"

namespace tessera::draw {

struct Compared {
  std::string name;
  double predicted = 0, measured = 0;
  bool operator==(const Compared&) const = default;
};

struct Comparison {
  std::vector<Compared> ranks;  // makespan, then how long each rank's compute lane is busy
  std::vector<Compared> kinds;  // seconds of each kind of op over all ranks
  bool operator==(const Comparison&) const = default;
};

// A predicted rank stands for its equals: only its own name is looked for among the measured ones.
Comparison compare(const Panel& predicted, const Panel& measured);

// "+8.1 %": measured against predicted.
std::string difference_text(const Compared& compared);

}  // namespace tessera::draw
