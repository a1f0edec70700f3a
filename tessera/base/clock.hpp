// The time in seconds on the steady clock, comparable between processes of one machine.
#pragma once

#include <chrono>

namespace tessera {

inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace tessera
