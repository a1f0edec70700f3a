#include "tessera/launch/watch/heartbeat.hpp"

#include <chrono>

#include "tessera/base/clock.hpp"
#include "tessera/base/process/quiet_thread.hpp"
#include "tessera/base/process/resident.hpp"

namespace tessera::launch {
namespace {

constexpr std::chrono::milliseconds kBeat{50};
constexpr int kBeatsPerLook = 4;  // how often memory is asked for and `also` is called

}  // namespace

Heartbeat::Heartbeat(ActivityLog& log, std::function<void()> also) : log_(log), also_(std::move(also)) {
  log_.beat(now_seconds(), resident_bytes());
  if (also_) also_();
  thread_ = quiet_thread([this] { beat(); });
}

Heartbeat::~Heartbeat() {
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  ends_.notify_all();
  thread_.join();
}

void Heartbeat::beat() {
  std::unique_lock lock(mutex_);
  std::int64_t bytes = log_.resident_bytes();
  for (int count = 0; !ends_.wait_for(lock, kBeat, [this] { return ended_; }); ++count) {
    const bool looks = count % kBeatsPerLook == 0;
    if (looks) bytes = resident_bytes();
    log_.beat(now_seconds(), bytes);
    if (looks && also_) {
      lock.unlock();
      also_();
      lock.lock();
    }
  }
}

}  // namespace tessera::launch
