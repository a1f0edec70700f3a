// The keys of a job, and who waits for which. A key that comes finds its waiters, and they only count: the
// cost of a message does not grow with what others wait for.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/base/process/key_store.hpp"

namespace tessera::launch {

class KeyTable {
 public:
  using Request = std::uint64_t;  // never 0

  // Puts all pairs, then waits for the keys of `wanted` until end() is called.
  Request begin(const KeyValues& puts, std::vector<std::string> wanted);
  void end(Request exchange) { waiting_.erase(exchange); }

  bool is_complete(Request exchange) const { return waiting_.at(exchange).num_missing == 0; }
  // Of a complete exchange, in the order they were wanted.
  std::vector<std::string> values(Request exchange) const;
  std::vector<std::string> missing(Request exchange) const;

 private:
  struct Waiting {
    std::vector<std::string> wanted;
    std::size_t num_missing = 0;
  };

  void put(const std::string& key, const std::string& value);

  std::unordered_map<std::string, std::string> values_;
  // Exchanges that have ended stay here and are missing in waiting_.
  std::unordered_map<std::string, std::vector<Request>> awaited_;
  std::unordered_map<Request, Waiting> waiting_;
  Request last_ = 0;
};

}  // namespace tessera::launch
