#include "tessera/job/reporter.hpp"

#include <unistd.h>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/files/queued_writer.hpp"

namespace tessera::job {

void tell(const std::string& message) {
  constexpr double kPatienceSeconds = 1;
  QueuedWriter errors({.descriptor = STDERR_FILENO});
  errors.write(message);
  errors.wait(kPatienceSeconds);
}

void Abort::begin() {
  if (is_due()) return;
  since_seconds_ = now_seconds();
  communicator_.abort();
}

void Abort::end_if_stuck() const {
  constexpr double kPatienceSeconds = 1.0;
  if (now_seconds() - since_seconds_ <= kPatienceSeconds) return;
  const int own = log_.state().error_code;
  _exit(own != 0 ? own : kExitPeerLost);
}

void Reporter::report() {
  if (abort_.is_due()) return abort_.end_if_stuck();
  try {
    if (reports_.report(to_bytes(log_.state(), now_seconds()), timeout_)) abort_.begin();
  } catch (const PeerLost& lost) {
    if (!is_server_gone_.exchange(true))
      tell(cat("tessera: rank 0, where all ranks meet, is gone or silent: ", lost.what(), "\n"));
    abort_.begin();
  }
}

}  // namespace tessera::job
