// Starts a thread that no signal interrupts. Signals are for the threads that know what to do about them.
#pragma once

#include <signal.h>

#include <thread>
#include <utility>

namespace tessera {

// A thread that runs `body` with all signals blocked.
template <typename Body>
std::thread quiet_thread(Body body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace tessera
