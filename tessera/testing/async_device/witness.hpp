// Watches what the streams of asynchronous devices do to memory: accesses of two streams that nothing orders,
// memory that is freed while another stream may still use it, and what a GPU would do slowly, counted.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tessera/testing/async_device/clock.hpp"
#include "tessera/testing/async_device/omission.hpp"
#include "tessera/testing/async_device/stream.hpp"

namespace tessera::async_device {

// Bytes that a task touches.
struct Access {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  bool writes = false;
};

// After all that a stream had been given at some time, and all that this waits for.
struct Point {
  Stream* stream = nullptr;
  std::uint64_t task = 0;
  Clock clock;
};

// Of one device.
struct Counts {
  std::map<std::string, std::int64_t> launches, host_waits;  // by operator; by what they waited for
  std::int64_t pageable_copies = 0;
  std::int64_t bytes_held = 0, most_bytes_held = 0;  // with what is freed and still used by a recorded stream
};

// All functions may be called by any thread.
class Witness {
 public:
  // `prepare` is called by the thread of each stream before any task.
  explicit Witness(
      const Pace& pace, std::function<void()> prepare = [] {}, Omission omission = {});
  ~Witness();

  Stream& default_stream(int device);
  Stream& new_stream(int device);
  Stream& stream(int device, std::int64_t id);

  // Gives the stream a task that touches this memory. `op` names it in what is reported, together with the
  // label of the stream, or of `caller`, on whose behalf it is done. After a failure nothing is done.
  Point issue(Stream& stream, const std::string& op, std::span<const Access> touched,
              std::function<void()> task, const Stream* caller = nullptr);
  // What the stream is given from now on is a part of this.
  void label(Stream& stream, std::string text);
  Point now(Stream& stream);
  // What the stream is given from now on begins after the point.
  void order(Stream& later, const Point& point);
  // Whether this is to be left out; `stream`: in the op that labels it.
  bool omits(Omission::Kind kind, std::string_view where);
  bool omits(Omission::Kind kind, const Stream& stream);
  std::int64_t num_omitted() const;
  bool has_passed(const Point& point);
  // The calling thread waits; `why` is counted. Throws DeviceFailed after a failure.
  void host_wait(const Point& point, const std::string& why);
  // Waits for all streams of the device, uncounted.
  void finish(int device);

  // Memory of the stream, filled with bytes that make any number a NaN, and so again before it is given back.
  std::byte* allocate(std::size_t bytes, Stream& owner);
  void release(std::byte* memory);
  // Pinned memory of the host: what streams do to it is watched too. What the host itself does there is not
  // seen.
  void watch(std::byte* memory, std::size_t bytes);
  void forget(std::byte* memory);
  // The memory is not given back before this stream is past what it has been given by the time of its
  // release.
  void record(const std::byte* address, Stream& user);
  // The calling thread lets go of memory that others hold too: who releases it knows what this thread has
  // waited for.
  void let_go(const std::byte* address);
  void count_pageable_copy(int device);

  Counts counts(int device) const;
  // Each once, with how often it was seen.
  std::map<std::string, std::int64_t> problems() const;

  const Failure& failure() const { return failure_; }
  // Ends what waits for a stream of any device.
  void fail(const std::string& text) { failure_.set(text); }
  // How many tasks all streams have done, and what those with a task are at, a line each.
  std::uint64_t num_done() const;
  std::vector<std::string> busy() const;

 private:
  struct Seen {
    Stream* stream;
    std::uint64_t task;
    std::size_t begin, end;  // in the block
    bool writes;
    std::string doing;
  };
  struct Block {
    std::size_t bytes = 0;
    Stream* owner = nullptr;  // none: the host's
    std::vector<Seen> seen;
    std::set<Stream*> recorded;
    Clock known;          // to those who have let go of it
    std::string made_by;  // what wrote it first
  };
  struct Freed {
    std::byte* memory;
    std::size_t bytes;
    std::vector<std::pair<Stream*, std::uint64_t>> users;  // what each must have done before; its owner first
  };

  static std::string text_of(const Block& block);
  static std::string text_of(const Block& block, std::size_t begin, std::size_t end);
  Stream& make(int device, std::int64_t id);
  std::string doing(const Stream& stream, const std::string& op) const;
  void touch(Stream& stream, std::uint64_t task, const std::string& doing, const Access& access);
  // Takes those off the list that nobody uses any more; returns their bytes.
  std::int64_t give_back(std::vector<Freed>& list);
  void look_for_freed();
  void add_problem(const std::string& text) { ++problems_[text]; }
  // The block that holds the address, or the end.
  std::map<std::byte*, Block>::iterator block_of(const std::byte* address);
  // What the calling thread has waited for.
  Clock& host_clock() const;

  const Pace pace_;
  const std::function<void()> prepare_;
  const Omission omission_;
  const std::uint64_t life_;  // tells it from all others that a thread has seen
  mutable std::recursive_mutex mutex_;
  Failure failure_;
  std::map<std::byte*, Block> blocks_;
  std::vector<Freed> freed_;                       // used by their owner's stream alone
  std::map<int, std::vector<Freed>> held_;         // by device: those that others use too
  std::size_t look_at_ = 0;                        // as many freed ones
  std::vector<Clock> clocks_;                      // by number of the stream: before its next task
  std::vector<std::string> labels_;                // by number of the stream
  std::map<int, std::vector<Stream*>> of_device_;  // by id
  std::map<std::string, std::int64_t> problems_;
  std::int64_t num_omitted_ = 0;
  std::map<int, Counts> counts_;                  // by device
  std::vector<std::unique_ptr<Stream>> streams_;  // last: their tasks end before the others go
};

}  // namespace tessera::async_device
