// A thread that shows that its rank is alive: it writes the time, and what memory the rank holds, into its
// log.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "tessera/base/process/activity.hpp"

namespace tessera::launch {

class Heartbeat {
 public:
  // `also` is called here once, so that a rank is heard of before its first step, and then a few times a
  // second on the heartbeat's thread; it must not throw.
  explicit Heartbeat(ActivityLog& log, std::function<void()> also = {});
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

 private:
  void beat();

  ActivityLog& log_;
  std::function<void()> also_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace tessera::launch
