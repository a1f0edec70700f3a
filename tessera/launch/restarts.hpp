// When ranks that have ended badly are started again.
#pragma once

#include <cstdint>

#include "tessera/launch/watch/child.hpp"

namespace tessera::launch {

// Whether something outside the rank ended it, so that another start may end well. An error of its own, or a
// limit of the system, would end the next start in the same way.
bool may_start_again(const Ending& ending);

// Seconds to wait before the next start, after `fruitless` starts in a row that brought no newer checkpoint.
double seconds_before_restart(std::int64_t fruitless);

}  // namespace tessera::launch
