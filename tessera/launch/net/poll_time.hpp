// Returns how long poll may wait.
#pragma once

#include <algorithm>

#include "tessera/base/clock.hpp"

namespace tessera::launch {

// Until a deadline, in poll's milliseconds: never negative, rounded up, at most a minute (then look again).
inline int poll_milliseconds(double deadline_seconds) {
  return static_cast<int>(std::clamp((deadline_seconds - now_seconds()) * 1000 + 1, 0.0, 60000.0));
}

}  // namespace tessera::launch
