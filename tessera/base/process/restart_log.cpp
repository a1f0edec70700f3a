#include "tessera/base/process/restart_log.hpp"

namespace tessera {

void RestartLog::restart(std::int64_t step, bool is_own) {
  const Held& last = held_[0];
  const Held& before = held_[1];
  const bool is_before = last.step != step && before.step == step && before.seconds > 0;
  // A start that did not come as far as to hold a state only adds to what is being lost.
  if (lost_since_seconds_ == 0) lost_since_seconds_ = is_before ? before.seconds.load() : last.seconds.load();
  step_ = step;
  is_own_ = is_own;
  ++count_;
}

void RestartLog::hold(std::int64_t step, double now_seconds) {
  const double since = lost_since_seconds_.exchange(0);
  if (since > 0) lost_seconds_ = lost_seconds_ + now_seconds - since;
  held_[1].step = held_[0].step.load();
  held_[1].seconds = held_[0].seconds.load();
  held_[0].step = step;
  held_[0].seconds = now_seconds;
}

double RestartLog::lost_seconds(double now_seconds) const {
  const double since = lost_since_seconds_;
  return lost_seconds_ + (since > 0 ? now_seconds - since : 0);
}

}  // namespace tessera
