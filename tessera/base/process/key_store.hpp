// A store of keys in which ranks leave short messages for each other before they are connected. Implemented
// over a socket by `launch`, in memory for ranks as threads; `collective` builds groups on it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

using KeyValues = std::vector<std::pair<std::string, std::string>>;

class KeyStore {
 public:
  virtual ~KeyStore() = default;
  // Puts all pairs, then waits until every key of `wanted` exists and returns their values in that order: one
  // round trip. Throws PeerLost naming the missing keys when `timeout` passes first.
  virtual std::vector<std::string> put_and_get(const KeyValues& puts, const std::vector<std::string>& wanted,
                                               std::chrono::milliseconds timeout) = 0;
};

// All ranks live in this process.
class MemoryKeyStore final : public KeyStore {
 public:
  std::vector<std::string> put_and_get(const KeyValues& puts, const std::vector<std::string>& wanted,
                                       std::chrono::milliseconds timeout) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace tessera
