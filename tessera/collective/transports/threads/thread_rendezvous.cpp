#include "tessera/collective/transports/threads/thread_rendezvous.hpp"

#include <algorithm>
#include <thread>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"

namespace tessera::collective {

ThreadRendezvous::ThreadRendezvous(std::vector<int> ranks)
    : inputs(ranks.size()), rows(ranks.size()), ranks_(std::move(ranks)), has_left_(ranks_.size()) {}

void ThreadRendezvous::throw_lost(int position, const char* what, double since_seconds) const {
  throw PeerLost(cat("rank ", lost_rank_.load(), " left while rank ",
                     ranks_[static_cast<std::size_t>(position)], " waited for it in ", what, " (",
                     fixed(now_seconds() - since_seconds, 3), " s)"));
}

void ThreadRendezvous::meet(int position, const char* what) {
  const double start_seconds = now_seconds();
  if (lost_rank_ >= 0) throw_lost(position, what, start_seconds);
  const std::uint64_t turn = turn_;
  if (num_arrived_.fetch_add(1) + 1 == size()) {
    num_arrived_ = 0;
    {
      // Under the lock, or a member between its last look and its sleep would miss the call.
      std::scoped_lock lock(mutex_);
      turn_ = turn + 1;
    }
    changed_.notify_all();
    return;
  }
  // More ranks than cores are usual: a waiting rank yields its core at each look, and soon sleeps.
  constexpr int kLooks = 100;
  for (int look = 0; look < kLooks; ++look) {
    if (turn_ != turn) return;
    std::this_thread::yield();
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return turn_ != turn || lost_rank_ >= 0; });
  if (turn_ == turn) throw_lost(position, what, start_seconds);
}

void ThreadRendezvous::leave(int global_rank) {
  const auto found = std::ranges::find(ranks_, global_rank);
  if (found == ranks_.end()) return;
  {
    std::scoped_lock lock(mutex_);
    has_left_[static_cast<std::size_t>(found - ranks_.begin())] = true;
    if (lost_rank_ < 0) lost_rank_ = global_rank;
  }
  changed_.notify_all();
}

void ThreadRendezvous::post(int from, int to, int tag, at::Tensor t) {
  {
    std::scoped_lock lock(mutex_);
    mail_[{from, to, tag}].push_back(std::move(t));
  }
  changed_.notify_all();
}

at::Tensor ThreadRendezvous::take(int from, int to, int tag) {
  const double start_seconds = now_seconds();
  std::unique_lock lock(mutex_);
  auto& box = mail_[{from, to, tag}];
  changed_.wait(lock, [&] { return !box.empty() || has_left_[static_cast<std::size_t>(from)]; });
  if (box.empty()) throw_lost(to, "receive", start_seconds);
  at::Tensor t = std::move(box.front());
  box.pop_front();
  return t;
}

}  // namespace tessera::collective
