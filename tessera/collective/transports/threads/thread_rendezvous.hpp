// The meeting point of a group of ranks that are threads: a reusable barrier, slots for the tensors of the
// collective under way, and mailboxes. A member that leaves ends all waits on it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "tessera/tensor/tensor.hpp"

namespace tessera::collective {

class ThreadRendezvous {
 public:
  explicit ThreadRendezvous(std::vector<int> ranks);

  const std::vector<int>& ranks() const { return ranks_; }
  int size() const { return static_cast<int>(ranks_.size()); }

  // Waits until every member has come; throws PeerLost when one has left instead.
  void meet(int position, const char* what);
  // The member will come no more.
  void leave(int global_rank);

  // Mailboxes: values with one sender, receiver and tag are taken in the order they were posted.
  void post(int from, int to, int tag, at::Tensor t);
  at::Tensor take(int from, int to, int tag);

  // Slots by position. A member writes its own before a meeting and reads the others' after it. They own what
  // they hold, so that a member that leaves takes nothing away from those who still read.
  std::vector<at::Tensor> inputs;
  std::vector<std::vector<std::int64_t>> rows;

 private:
  [[noreturn]] void throw_lost(int position, const char* what, double since_seconds) const;

  const std::vector<int> ranks_;
  std::atomic<int> num_arrived_ = 0;
  std::atomic<std::uint64_t> turn_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int> lost_rank_ = -1;  // the first to leave
  std::vector<bool> has_left_;
  std::map<std::tuple<int, int, int>, std::deque<at::Tensor>> mail_;
};

}  // namespace tessera::collective
