#pragma once

#include <chrono>

namespace tessera {

// Seconds since 1970, comparable between machines as far as their clocks agree.
inline double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace tessera
