// The factor of the loss that keeps fp16 gradients from vanishing and overflowing: a power of two that halves
// when a gradient was not finite and doubles after many steps that were. The same on all ranks, since all
// take a step or none.
#pragma once

#include <cstdint>

#include "tessera/spec/spec.hpp"

namespace tessera::optim {

// Value and count of good steps are the state to save; the scale of all precisions but fp16 is 1 and stays
// so.
class LossScale {
 public:
  LossScale(const spec::Training& training, spec::Precision precision);
  double value() const { return value_; }
  std::int64_t good_steps() const { return good_steps_; }
  bool is_dynamic() const { return dynamic_; }
  // As a run had it that this one continues.
  void restore(double value, std::int64_t good_steps);
  // After each step. Never below 1: what overflows there is not mended by scaling.
  void update(bool taken);

 private:
  bool dynamic_;
  double value_;
  std::int64_t growth_steps_, good_steps_ = 0;
};

}  // namespace tessera::optim
