// Times in seconds.
#pragma once

#include <chrono>

namespace tessera {

// On the steady clock, comparable between processes of one machine.
inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Since 1970, comparable between machines as far as their clocks agree.
inline double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace tessera
