// Vector clocks: what is sure to have happened before something on another stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::async_device {

// By number of the stream: how many of its tasks are sure to be done.
using Clock = std::vector<std::uint64_t>;

// Now `into` knows what `other` knows, too.
void join(Clock& into, const Clock& other);

bool knows(const Clock& clock, std::size_t stream, std::uint64_t task);
// All that the other knows.
bool covers(const Clock& clock, const Clock& other);

}  // namespace tessera::async_device
