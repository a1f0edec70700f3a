#include "tessera/net/transfer.hpp"

#include "tessera/base/error.hpp"

namespace tessera::net {

bool Transfer::is_done() const {
  const std::scoped_lock lock(mutex_);
  return is_done_;
}

void Transfer::wait(std::chrono::milliseconds timeout) const {
  std::unique_lock lock(mutex_);
  if (!ended_.wait_for(lock, timeout, [this] { return is_done_; }))
    throw PeerLost(cat("no answer for ", std::chrono::duration<double>(timeout).count(), " s"));
  if (!failure_.empty()) throw PeerLost(failure_);
}

void Transfer::end(const std::string& failure) {
  const std::scoped_lock lock(mutex_);
  if (is_done_) return;
  is_done_ = true;
  failure_ = failure;
  buffer_.owner.reset();
  ended_.notify_all();
}

}  // namespace tessera::net
