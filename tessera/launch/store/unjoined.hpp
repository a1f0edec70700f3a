// Detects a process that was started as one of several, by a launcher whose variables do not say enough to
// join the others.
#pragma once

#include <optional>
#include <string>

#include "tessera/launch/store/join.hpp"

namespace tessera::launch {

// Says which variables show that other processes were started with this one, and how to start the ranks so
// that they find each other. Nothing where membership() joins them, or where this process is the only one.
std::optional<std::string> unjoined(const Environment& environment);

}  // namespace tessera::launch
