#include "tessera/launch/watch/signals.hpp"

#include <poll.h>
#include <unistd.h>

#include <cmath>
#include <string>

#include "tessera/base/clock.hpp"
#include "tessera/base/process/quiet_thread.hpp"
#include "tessera/launch/watch/failure_report.hpp"

namespace tessera::launch {
namespace {

// Nothing is told to a standard error that takes nothing: the end must not wait for it.
void tell_if_heard(const std::string& text) {
  pollfd errors{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (poll(&errors, 1, 0) == 1 && (errors.revents & POLLOUT) != 0) [[maybe_unused]]
    const auto written = write(STDERR_FILENO, text.data(), text.size());
}

timespec time_of(double seconds) {
  const double whole = std::floor(seconds);
  return {static_cast<time_t>(whole), static_cast<long>((seconds - whole) * 1e9)};
}

}  // namespace

sigset_t stop_signals() {
  sigset_t out;
  sigemptyset(&out);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&out, number);
  struct sigaction hangup {};
  if (sigaction(SIGHUP, nullptr, &hangup) != 0 || hangup.sa_handler != SIG_IGN) sigaddset(&out, SIGHUP);
  return out;
}

StopOnSignals::StopOnSignals(StopRequest& request, const StopOptions& options)
    : request_(request), options_(options), signals_(stop_signals()) {
  pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  thread_ = quiet_thread([this] { listen(); });
}

StopOnSignals::~StopOnSignals() {
  ended_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);  // wakes it
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void StopOnSignals::listen() {
  while (!ended_) {
    const double since = request_.since_seconds();
    int number = 0;
    if (options_.grace_seconds <= 0 || since == 0) {
      sigwait(&signals_, &number);
    } else {
      const double left = since + options_.grace_seconds - now_seconds();
      const timespec time = time_of(std::max(left, 0.0));
      number = sigtimedwait(&signals_, nullptr, &time);
      if (number < 0 && !ended_ && left <= 0) {
        tell_if_heard(grace_text(request_.signal(), options_.grace_seconds));
        _exit(request_.exit_code());
      }
    }
    if (number > 0 && !ended_) take(number);
  }
}

void StopOnSignals::take(int signal) {
  switch (request_.ask(signal, now_seconds())) {
    case StopRequest::Means::stop:
      if (options_.tells) tell_if_heard(stopping_text(signal, options_.grace_seconds));
      return;
    case StopRequest::Means::nothing_new:
      return;
    case StopRequest::Means::end_at_once:
      // A rank of our launcher leaves it to the launcher, which ends all of them.
      if (options_.grace_seconds > 0) _exit(request_.exit_code());
      return;
  }
}

}  // namespace tessera::launch
