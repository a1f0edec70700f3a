#include "tessera/testing/async_device/stream.hpp"

#include <chrono>

#include "tessera/base/text.hpp"

namespace tessera::async_device {

std::string Failure::text() const {
  const std::scoped_lock lock(mutex_);
  return text_;
}

bool Failure::set(const std::string& text) {
  const std::scoped_lock lock(mutex_);
  if (is_there_) return false;
  text_ = text;
  is_there_ = true;
  return true;
}

Stream::Stream(std::size_t number, int device, std::int64_t id, const Pace& pace, Failure& failure,
               std::function<void()> prepare)
    : number_(number),
      device_(device),
      id_(id),
      pace_(pace),
      failure_(failure),
      prepare_(std::move(prepare)),
      thread_([this] { work(); }) {}

Stream::~Stream() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  has_task_.notify_one();
  thread_.join();
}

std::string Stream::name() const { return id_ == 0 ? "the default stream" : cat("stream ", id_); }

std::uint64_t Stream::give(std::string what, std::function<void()> task) {
  std::uint64_t number = 0;
  {
    const std::scoped_lock lock(mutex_);
    tasks_.push_back({std::move(what), std::move(task)});
    number = ++given_;
    if (tasks_.size() > 1) return number;  // it is at work
  }
  has_task_.notify_one();
  return number;
}

bool Stream::is_done(std::uint64_t task) const { return failure_.is_there() || done() >= task; }

void Stream::wait_for(std::uint64_t task) const {
  constexpr std::chrono::milliseconds kLook{20};  // at whether another stream has failed
  std::unique_lock lock(mutex_);
  ++num_waiting_;
  while (!progressed_.wait_for(lock, kLook, [&] { return done_ >= task || failure_.is_there(); })) {
  }
  --num_waiting_;
  if (failure_.is_there()) throw DeviceFailed(failure_.text());
}

std::optional<std::string> Stream::is_at() const {
  const std::scoped_lock lock(mutex_);
  return tasks_.empty() ? std::nullopt : std::optional(tasks_.front().what);
}

void Stream::do_task(const std::function<void()>& task) {
  if (failure_.is_there()) return;
  try {
    task();
  } catch (const std::exception& error) {
    failure_.set(error.what());
  }
}

void Stream::work() {
  constexpr std::uint64_t kOneDelayedOf = 4, kMostStreams = 10'000;
  std::mt19937_64 dice((pace_.seed * kMostStreams + static_cast<std::uint64_t>(device_)) * kMostStreams +
                       static_cast<std::uint64_t>(id_));
  const double slowness = 0.1 + static_cast<double>(dice() % 30) / 10;
  prepare_();
  while (true) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      has_task_.wait(lock, [&] { return ends_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front().run);
    }
    if (pace_.most_delay_microseconds > 0 && dice() % kOneDelayedOf == 0) {
      const auto most = static_cast<std::uint64_t>(pace_.most_delay_microseconds);
      std::this_thread::sleep_for(std::chrono::microseconds(
          static_cast<std::int64_t>(slowness * static_cast<double>(dice() % most))));
    }
    do_task(task);
    task = nullptr;  // what it holds may be waited for
    bool is_waited_for = false;
    {
      const std::scoped_lock lock(mutex_);
      tasks_.pop_front();
      ++done_;
      is_waited_for = num_waiting_ > 0;
    }
    if (is_waited_for) progressed_.notify_all();
  }
}

}  // namespace tessera::async_device
