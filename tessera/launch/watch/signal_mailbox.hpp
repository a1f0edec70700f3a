// Receives stop signals and SIGCHLD of this process as data of a descriptor, instead of handlers.
#pragma once

#include <signal.h>

#include "tessera/base/files/descriptor.hpp"

namespace tessera::launch {

// The signals are blocked while it lives, in this thread and in those that it starts.
class SignalMailbox {
 public:
  SignalMailbox();
  ~SignalMailbox() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalMailbox(const SignalMailbox&) = delete;
  SignalMailbox& operator=(const SignalMailbox&) = delete;

  // Readable when a signal has come.
  int descriptor() const { return descriptor_.number(); }
  // The next stop signal that has come; 0 if there is none.
  int take_stop_signal();

 private:
  sigset_t before_;
  Descriptor descriptor_;
};

}  // namespace tessera::launch
