#include "tessera/optim/loss_scale.hpp"

#include <algorithm>

namespace tessera::optim {

LossScale::LossScale(const spec::Training& training, spec::Precision precision)
    : dynamic_(precision == spec::Precision::fp16),
      value_(dynamic_ ? training.loss_scale_start : 1.0),
      growth_steps_(training.loss_scale_growth_steps) {}

void LossScale::restore(double value, std::int64_t good_steps) {
  if (!dynamic_) return;
  value_ = value;
  good_steps_ = good_steps;
}

void LossScale::update(bool taken) {
  constexpr double kFactor = 2;
  if (!dynamic_) return;
  if (!taken) value_ = std::max(1.0, value_ / kFactor);
  good_steps_ = taken ? good_steps_ + 1 : 0;
  if (good_steps_ < growth_steps_) return;
  value_ *= kFactor;
  good_steps_ = 0;
}

}  // namespace tessera::optim
