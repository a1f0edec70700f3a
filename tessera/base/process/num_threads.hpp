// How many threads to work with.
#pragma once

#include <algorithm>
#include <thread>

namespace tessera {

// As many as were asked for; 0: one for each core that the process may use.
inline int num_threads(int asked) {
  return asked > 0 ? asked : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace tessera
