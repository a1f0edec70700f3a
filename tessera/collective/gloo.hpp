// How do ranks in different processes talk? Over Gloo's TCP connections, arranged through a KeyStore.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "tessera/base/key_store.hpp"
#include "tessera/collective/group.hpp"

namespace tessera::collective {

struct GlooOptions {
  std::string address = "127.0.0.1";         // the interface to listen on
  std::string prefix = "job/0";              // of all keys: job and generation
  std::chrono::milliseconds timeout{60000};  // of one operation, and of connecting
};

// A name for a list of ranks whose length doesn't grow with it: its keys are made once per member.
std::string group_name(const std::vector<int>& ranks);

class GlooCommunicator final : public Communicator {
 public:
  // The store must outlive the communicator; groups need it only while they are made. Makes this process ignore SIGPIPE
  // unless it has a handler: Gloo writes to sockets that a lost peer has closed.
  GlooCommunicator(KeyStore& store, int rank, int size, GlooOptions options = {});
  // How many exchanges with the store all make_groups calls have cost so far.
  int num_exchanges() const { return num_exchanges_; }
  // Breaks off the connections of all groups.
  void abort() const override;

 private:
  std::vector<std::shared_ptr<Link>> connect(const std::vector<std::vector<int>>& rank_lists) const override;

  KeyStore& store_;
  GlooOptions options_;
  mutable std::map<std::vector<int>, int> num_made_;
  mutable int num_exchanges_ = 0;
  mutable std::mutex mutex_;
  mutable std::set<int> sockets_;  // of all groups; guarded by mutex_
};

}  // namespace tessera::collective
