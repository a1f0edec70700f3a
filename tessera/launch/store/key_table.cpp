#include "tessera/launch/store/key_table.hpp"

#include <utility>

namespace tessera::launch {

KeyTable::Request KeyTable::begin(const KeyValues& puts, std::vector<std::string> wanted) {
  for (const auto& [key, value] : puts) put(key, value);
  const Request exchange = ++last_;
  Waiting waiting{std::move(wanted)};
  for (const auto& key : waiting.wanted) {
    if (values_.contains(key)) continue;
    ++waiting.num_missing;
    awaited_[key].push_back(exchange);
  }
  waiting_.emplace(exchange, std::move(waiting));
  return exchange;
}

std::vector<std::string> KeyTable::values(Request exchange) const {
  std::vector<std::string> out;
  for (const auto& key : waiting_.at(exchange).wanted) out.push_back(values_.at(key));
  return out;
}

std::vector<std::string> KeyTable::missing(Request exchange) const {
  std::vector<std::string> out;
  for (const auto& key : waiting_.at(exchange).wanted)
    if (!values_.contains(key)) out.push_back(key);
  return out;
}

void KeyTable::put(const std::string& key, const std::string& value) {
  values_[key] = value;
  const auto found = awaited_.find(key);
  if (found == awaited_.end()) return;
  for (const Request exchange : found->second)
    if (const auto waiter = waiting_.find(exchange); waiter != waiting_.end()) --waiter->second.num_missing;
  awaited_.erase(found);
}

}  // namespace tessera::launch
