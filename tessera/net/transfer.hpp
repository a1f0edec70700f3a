// One send or receive under way between two ranks, and the memory that it reads or fills.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

namespace tessera::net {

// Memory that stays valid for as long as `owner` lives.
struct Buffer {
  char* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const void> owner = nullptr;
};

class Transfer {
 public:
  explicit Transfer(Buffer buffer) : buffer_(std::move(buffer)) {}

  const Buffer& buffer() const { return buffer_; }
  bool is_done() const;  // well or badly
  // Until it is done; throws PeerLost when it has failed or the time is over.
  void wait(std::chrono::milliseconds timeout) const;

  // By the connection, once. Either lets go of the memory's owner.
  void succeed() { end(""); }
  void fail(const std::string& reason) { end(reason); }

 private:
  void end(const std::string& failure);

  Buffer buffer_;
  mutable std::mutex mutex_;
  mutable std::condition_variable ended_;
  bool is_done_ = false;
  std::string failure_;  // empty: it went well
};

using TransferPtr = std::shared_ptr<Transfer>;

}  // namespace tessera::net
