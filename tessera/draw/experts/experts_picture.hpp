// A picture of how evenly a run used its experts: a panel for each layer, an expert in each row, steps from
// left to right, coloured by load; below them a curve of the largest loads.
#pragma once

#include <string>
#include <vector>

#include "tessera/draw/experts/load_history.hpp"

namespace tessera::draw {

struct ExpertsPicture {
  std::string source;  // where the loads are from: "tiny/metrics.jsonl"
  LoadHistory history;

  // "Load of experts: 2 layers x 8 experts, 60 steps".
  std::string title() const;
  // What was worst, and the last step, in a sentence.
  std::string summary() const;
  // What columns and rows stand for where it is not one step or expert each, and what is missing.
  std::vector<std::string> notes() const;
};

// A whole file. The history has a step at least.
std::string to_svg(const ExpertsPicture& picture);

}  // namespace tessera::draw
