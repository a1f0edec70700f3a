#include "tessera/launch/watch/signal_mailbox.hpp"

#include <sys/signalfd.h>
#include <unistd.h>

#include "tessera/base/error.hpp"
#include "tessera/launch/watch/signals.hpp"

namespace tessera::launch {

SignalMailbox::SignalMailbox() {
  sigset_t heard = stop_signals();
  sigaddset(&heard, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &heard, &before_);
  descriptor_ = Descriptor(signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK));
  TESSERA_CHECK(static_cast<bool>(descriptor_), system_reason());
}

int SignalMailbox::take_stop_signal() {
  signalfd_siginfo info;
  while (read(descriptor_.number(), &info, sizeof(info)) == sizeof(info))
    if (info.ssi_signo != SIGCHLD) return static_cast<int>(info.ssi_signo);
  return 0;
}

}  // namespace tessera::launch
