// When each op of each class of ranks runs: what a simulation predicts and a trace measures.
#pragma once

#include <vector>

#include "tessera/program/schedule/span.hpp"

namespace tessera::simulate {

struct Timeline {
  std::vector<std::vector<program::Span>> classes;  // by class of ranks and op of its sequence
  double makespan = 0;                              // end of the last compute op before the optimizer's steps
  bool operator==(const Timeline&) const = default;
};

}  // namespace tessera::simulate
