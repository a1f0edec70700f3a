#include "tessera/launch/restarts.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.hpp"
#include "tessera/launch/watch/failure_report.hpp"

namespace tessera::launch {

bool may_start_again(const Ending& ending) {
  return ending.signal != 0 ? !is_of_limit(ending) : ending.code == kExitPeerLost;
}

double seconds_before_restart(std::int64_t fruitless) {
  constexpr double kLongest = 60;
  constexpr std::int64_t kMostDoublings = 8;
  return fruitless == 0
             ? 0
             : std::min(kLongest, std::exp2(static_cast<double>(std::min(fruitless, kMostDoublings))));
}

}  // namespace tessera::launch
