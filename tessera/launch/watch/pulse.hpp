// How does a rank show that it lives? By a thread that writes the time, and what memory it holds, into its
// log.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "tessera/base/process/activity.hpp"

namespace tessera::launch {

class Pulse {
 public:
  // `also` is called here once, so that a rank is heard of before its first step, and then a few times a
  // second on the pulse's thread; it must not throw.
  explicit Pulse(ActivityLog& log, std::function<void()> also = {});
  ~Pulse();
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

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
