// How do many threads use one KeyStore in few round trips? Puts are kept, waits are collected, and when every
// thread waits or has retired, all travel in one exchange.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tessera/base/key_store.hpp"

namespace tessera::collective {

class KeyBatch {
 public:
  KeyBatch(KeyStore& store, int num_threads, std::chrono::milliseconds timeout);

  // Travels with the next exchange.
  void put(const std::string& key, const std::string& value);
  // Somebody will get these: they are asked for in the next exchange.
  void expect(const std::vector<std::string>& keys);
  // Waits for all keys; throws what the exchange threw, PeerLost above all.
  std::vector<std::string> get(const std::vector<std::string>& keys);
  // The calling thread will put and get no more.
  void retire();

  bool has(const std::vector<std::string>& keys);
  int num_exchanges() const { return num_exchanges_; }

 private:
  void exchange_if_all_wait();

  KeyStore& store_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int num_active_;
  int num_waiting_ = 0;
  int num_exchanges_ = 0;
  std::map<std::string, std::string> known_;
  KeyValues puts_;
  std::set<std::string> wanted_;
  std::exception_ptr failure_;
};

}  // namespace tessera::collective
