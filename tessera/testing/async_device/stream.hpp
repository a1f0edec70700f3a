// A stream of the asynchronous device: a thread that does its tasks one after the other, each after a delay
// that a seed decides, while whoever gave them goes on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

namespace tessera::async_device {

struct Pace {
  std::uint64_t seed = 1;
  int most_delay_microseconds = 100;  // of one task in four, times how slow the stream is; 0: none
};

// Thrown where somebody waits for a stream of devices that have failed.
struct DeviceFailed : std::runtime_error {
  using runtime_error::runtime_error;
};

// The first failure of any stream; from then on none does its tasks.
class Failure {
 public:
  bool is_there() const { return is_there_; }
  std::string text() const;
  // Returns whether it is the first.
  bool set(const std::string& text);

 private:
  std::atomic<bool> is_there_ = false;
  mutable std::mutex mutex_;
  std::string text_;
};

class Stream {
 public:
  // `number` tells it from all others of the process. `prepare` is called by its thread before any task.
  Stream(std::size_t number, int device, std::int64_t id, const Pace& pace, Failure& failure,
         std::function<void()> prepare);
  // Waits for its tasks.
  ~Stream();

  std::size_t number() const { return number_; }
  int device() const { return device_; }
  std::int64_t id() const { return id_; }  // 0: the device's default stream
  std::string name() const;

  // `what` names the task to who asks what the stream is at. Returns the task's number, counted from 1.
  std::uint64_t give(std::string what, std::function<void()> task);
  std::uint64_t given() const { return given_; }
  std::uint64_t done() const { return done_; }
  // Also after a failure.
  bool is_done(std::uint64_t task) const;
  // Throws DeviceFailed after a failure.
  void wait_for(std::uint64_t task) const;
  // The task under way; nothing if it has none.
  std::optional<std::string> is_at() const;

 private:
  struct Task {
    std::string what;
    std::function<void()> run;
  };
  void work();
  void do_task(const std::function<void()>& task);

  const std::size_t number_;
  const int device_;
  const std::int64_t id_;
  const Pace pace_;
  Failure& failure_;
  const std::function<void()> prepare_;
  mutable std::mutex mutex_;
  std::condition_variable has_task_;
  mutable std::condition_variable progressed_;
  mutable int num_waiting_ = 0;  // for progress
  std::deque<Task> tasks_;       // the first one is under way
  std::atomic<std::uint64_t> given_ = 0, done_ = 0;
  bool ends_ = false;
  std::thread thread_;  // last: the others are there before it begins
};

}  // namespace tessera::async_device
