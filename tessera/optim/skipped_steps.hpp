// Counts steps that were skipped because their gradients were not finite, and stops a run that diverges.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/error.hpp"

namespace tessera::optim {

struct FinishedStep {
  std::int64_t step = 0;
  bool taken = true;
  double loss = 0, gradient_norm = 0, loss_scale = 1;
};

class SkippedSteps {
 public:
  // `most`: training.stop_after_skipped. `are_kept`: a skipped step leaves the weights as they were.
  SkippedSteps(std::int64_t most, bool are_kept) : most_(most), are_kept_(are_kept) {}

  // After each step. A skipped fp16 step that halves the loss scale is part of the search for a scale: it
  // does not count until the scale has reached 1.
  void add(const FinishedStep& step);
  bool are_too_many() const { return most_ > 0 && counted_ >= most_; }
  bool has_spoilt_weights() const { return !are_kept_ && in_a_row_ > 0; }
  // The error of a run whose weights are spoilt. `newest` is a sentence about the newest checkpoint.
  UserError spoilt_error(const std::string& newest) const;
  // The error of a run that skipped too many steps.
  UserError error(const std::string& newest) const;

 private:
  std::int64_t most_, in_a_row_ = 0, counted_ = 0, last_step_ = 0;
  bool are_kept_;
  std::string last_;
};

}  // namespace tessera::optim
