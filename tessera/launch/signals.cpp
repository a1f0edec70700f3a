#include "tessera/launch/signals.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "tessera/base/error.hpp"
#include "tessera/launch/telling.hpp"

namespace tessera::launch {
namespace {

// A handler is given nothing but the signal's number, so what it acts on must be reachable from everywhere.
std::atomic<StopWord*> stop_word = nullptr;
std::atomic<int> signal_taken = 0;

void take(int number) {
  signal_taken = number;
  if (StopWord* word = stop_word) word->request();
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kStopping, sizeof(kStopping) - 1);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
}

}  // namespace

StopOnSignals::StopOnSignals(StopWord& word) {
  CHECK(stop_word.exchange(&word) == nullptr, "two runs of one process want its signals");
  signal_taken = 0;
  struct sigaction action {};
  action.sa_handler = take;
  action.sa_flags = SA_RESTART;
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
}

StopOnSignals::~StopOnSignals() {
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  stop_word = nullptr;
}

int StopOnSignals::exit_code() const { return signal_taken == 0 ? 0 : 128 + signal_taken; }

}  // namespace tessera::launch
