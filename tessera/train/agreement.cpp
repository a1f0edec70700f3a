#include "tessera/train/agreement.hpp"

#include <signal.h>

namespace tessera::train {

Wishes agreed(const Session& session, const Wishes& mine) {
  // How many ranks wish each of these; of several signals the first one counts.
  constexpr int kSignals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
  std::vector<double> wishes = {mine.save ? 1.0 : 0.0};
  for (const int signal : kSignals) wishes.push_back(mine.stop_signal == signal ? 1 : 0);
  const auto sums = session.sums(wishes);
  Wishes out{.save = sums.front() > 0};
  for (std::size_t i = 0; i < std::size(kSignals) && out.stop_signal == 0; ++i)
    if (sums[i + 1] > 0) out.stop_signal = kSignals[i];
  return out;
}

}  // namespace tessera::train
