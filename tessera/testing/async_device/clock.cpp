#include "tessera/testing/async_device/clock.hpp"

#include <algorithm>

namespace tessera::async_device {

void join(Clock& into, const Clock& other) {
  into.resize(std::max(into.size(), other.size()));
  for (std::size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

bool knows(const Clock& clock, std::size_t stream, std::uint64_t task) {
  return task == 0 || (stream < clock.size() && clock[stream] >= task);
}

bool covers(const Clock& clock, const Clock& other) {
  for (std::size_t i = 0; i < other.size(); ++i)
    if (!knows(clock, i, other[i])) return false;
  return true;
}

}  // namespace tessera::async_device
