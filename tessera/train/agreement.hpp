// What the ranks of a run agree on between two steps: whether to stop, and whether to save.
#pragma once

#include "tessera/train/session.hpp"

namespace tessera::train {

struct Wishes {
  int stop_signal = 0;  // SIGINT, SIGTERM, SIGHUP or SIGUSR1; 0: go on
  bool save = false;
  bool operator==(const Wishes&) const = default;
};

// All ranks call it; each gets what any of them wishes, so that all stop and save after the same step.
Wishes agreed(const Session& session, const Wishes& mine);

}  // namespace tessera::train
