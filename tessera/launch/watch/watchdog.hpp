// Watches ranks that somebody else started, on rank 0: it hears what each of them does, notices the first
// that fails, is gone or hangs, and says it in one message.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/process/activity.hpp"
#include "tessera/launch/watch/failure_report.hpp"

namespace tessera::launch {

class Watchdog {
 public:
  // `tell` is called once, on a thread of the watchdog, with the message for people.
  Watchdog(int num_ranks, double timeout_seconds, RankDescriber describer,
           std::function<void(const std::string&)> tell);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // What a rank reported (to_bytes of its state); malformed reports are passed over.
  void hear(int rank, std::string_view bytes);
  // Its connection broke off.
  void lose(int rank);

 private:
  void watch();
  // The message, if there is cause for one; called with the lock held.
  std::string judgement(double now_seconds) const;

  const double timeout_seconds_;
  const RankDescriber describer_;
  const std::function<void(const std::string&)> tell_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<RankState> states_;
  int lost_ = -1;  // the first
  double lost_seconds_ = 0;
  double peer_lost_seconds_ = 0;  // when a rank first told that it misses another
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace tessera::launch
