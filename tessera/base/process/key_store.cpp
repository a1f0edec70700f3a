#include "tessera/base/process/key_store.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera {

std::vector<std::string> MemoryKeyStore::put_and_get(const KeyValues& puts,
                                                     const std::vector<std::string>& wanted,
                                                     std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  for (const auto& [key, value] : puts) values_[key] = value;
  if (!puts.empty()) changed_.notify_all();
  const auto missing = [&] {
    std::vector<std::string> keys;
    for (const auto& key : wanted)
      if (!values_.contains(key)) keys.push_back(key);
    return keys;
  };
  if (!changed_.wait_for(lock, timeout, [&] { return missing().empty(); }))
    throw PeerLost(cat("no peer wrote ", join(missing(), ", "), " within ", timeout.count(), " ms"));
  std::vector<std::string> values;
  for (const auto& key : wanted) values.push_back(values_.at(key));
  return values;
}

}  // namespace tessera
