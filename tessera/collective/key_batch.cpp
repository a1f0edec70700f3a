#include "tessera/collective/key_batch.hpp"

#include <algorithm>
#include <utility>

namespace tessera::collective {

KeyBatch::KeyBatch(KeyStore& store, int num_threads, std::chrono::milliseconds timeout)
    : store_(store), timeout_(timeout), num_active_(num_threads) {}

void KeyBatch::put(const std::string& key, const std::string& value) {
  std::scoped_lock lock(mutex_);
  known_[key] = value;
  puts_.emplace_back(key, value);
}

void KeyBatch::expect(const std::vector<std::string>& keys) {
  std::scoped_lock lock(mutex_);
  for (const auto& key : keys)
    if (!known_.contains(key)) wanted_.insert(key);
}

std::vector<std::string> KeyBatch::get(const std::vector<std::string>& keys) {
  std::unique_lock lock(mutex_);
  const auto all_known = [&] {
    return std::ranges::all_of(keys, [&](const auto& key) { return known_.contains(key); });
  };
  if (!all_known()) {
    for (const auto& key : keys)
      if (!known_.contains(key)) wanted_.insert(key);
    ++num_waiting_;
    exchange_if_all_wait();
    changed_.wait(lock, [&] { return failure_ || all_known(); });
    if (failure_) std::rethrow_exception(failure_);
  }
  std::vector<std::string> values;
  for (const auto& key : keys) values.push_back(known_.at(key));
  return values;
}

void KeyBatch::retire() {
  std::scoped_lock lock(mutex_);
  --num_active_;
  exchange_if_all_wait();
}

bool KeyBatch::has(const std::vector<std::string>& keys) {
  std::scoped_lock lock(mutex_);
  return std::ranges::all_of(keys, [&](const auto& key) { return known_.contains(key); });
}

// Holds the lock throughout: whoever could want it waits for the outcome anyway.
void KeyBatch::exchange_if_all_wait() {
  if (num_waiting_ < num_active_ || failure_ || (puts_.empty() && wanted_.empty())) return;
  const std::vector<std::string> wanted(wanted_.begin(), wanted_.end());
  wanted_.clear();
  num_waiting_ = 0;
  ++num_exchanges_;
  try {
    const auto values = store_.exchange(std::exchange(puts_, {}), wanted, timeout_);
    for (std::size_t i = 0; i < wanted.size(); ++i) known_[wanted[i]] = values[i];
  } catch (...) {
    failure_ = std::current_exception();
  }
  changed_.notify_all();
}

}  // namespace tessera::collective
