#include <csignal>
#include <cstdio>
#include <set>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "tessera/base/random.hpp"
#include "tessera/collective/closed_door.hpp"
#include "tessera/collective/gloo.hpp"
#include "tessera/collective/key_batch.hpp"
#include "tessera/collective/link.hpp"

#include "tessera/base/error.hpp"  // last: LibTorch has a CHECK of its own

namespace tessera::collective {
namespace {

// What Gloo sees of a KeyBatch. Each member writes its addresses under its own number, then reads the others'
// one by one; asking for all of them at the first write makes that one exchange for any number of members.
class BatchStore final : public c10d::Store {
 public:
  BatchStore(std::shared_ptr<KeyBatch> batch, std::string prefix, int rank, int size)
      : batch_(std::move(batch)), prefix_(std::move(prefix)), rank_(rank), size_(size) {}

  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<BatchStore>(batch_, prefix_, rank_, size_);
  }
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    batch_->put(prefix_ + key, std::string(value.begin(), value.end()));
    const std::string own_number = cat("/", rank_);
    if (!key.ends_with(own_number)) return;
    std::vector<std::string> counterparts;
    const std::string stem = prefix_ + key.substr(0, key.size() - own_number.size()) + "/";
    for (int member = 0; member < size_; ++member) counterparts.push_back(cat(stem, member));
    batch_->expect(counterparts);
  }
  std::vector<std::uint8_t> get(const std::string& key) override {
    const std::string value = batch_->get({prefix_ + key})[0];
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override { batch_->get(full(keys)); }
  // The batch has one time limit for all.
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { wait(keys); }
  bool check(const std::vector<std::string>& keys) override { return batch_->has(full(keys)); }
  // c10d wants these three defined; Gloo makes its groups without them.
  std::int64_t add(const std::string&, std::int64_t) override { throw Bug("Gloo counts in the store"); }
  bool deleteKey(const std::string&) override { throw Bug("Gloo deletes keys"); }
  std::int64_t getNumKeys() override { throw Bug("Gloo counts keys"); }

 private:
  std::vector<std::string> full(std::vector<std::string> keys) const {
    for (auto& key : keys) key = prefix_ + key;
    return keys;
  }

  std::shared_ptr<KeyBatch> batch_;
  std::string prefix_;
  int rank_, size_;
};

std::shared_ptr<gloo::transport::Device> listen_on(const std::string& address) {
  try {
    return c10d::ProcessGroupGloo::createDeviceForHostname(address);
  } catch (const std::exception& error) {
    throw UserError(cat("cannot listen on address '", address, "': ", short_text(error),
                        ". Name an address of this machine, e.g. 127.0.0.1."));
  }
}

// One group; blocks until all members are connected.
c10::intrusive_ptr<c10d::Backend> connected(const Link& link, c10::intrusive_ptr<c10d::Store> store,
                                            const std::shared_ptr<gloo::transport::Device>& device,
                                            std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(device);
  options->threads = 1;  // of collectives, which block; sends and receives run beside it
  try {
    return c10::make_intrusive<c10d::ProcessGroupGloo>(std::move(store), link.rank,
                                                       static_cast<int>(link.ranks.size()), options);
  } catch (const PeerLost&) {
    throw;
  } catch (const Bug&) {
    throw;
  } catch (const std::exception& error) {
    throw PeerLost(cat("rank ", link.ranks[static_cast<std::size_t>(link.rank)],
                       " could not connect to its group: ", short_text(error)));
  }
}

}  // namespace

std::string group_name(const std::vector<int>& ranks) {
  std::string list;
  for (const int rank : ranks) list += cat(rank, ".");
  char hash[17];
  std::snprintf(hash, sizeof(hash), "%016llx", static_cast<unsigned long long>(stream_of(list)));
  return cat("group.", ranks.size(), ".", ranks.front(), ".", hash);
}

GlooCommunicator::GlooCommunicator(KeyStore& store, int rank, int size, GlooOptions options)
    : Communicator(rank, size), store_(store), options_(std::move(options)) {
  struct sigaction current {};
  if (sigaction(SIGPIPE, nullptr, &current) == 0 && current.sa_handler == SIG_DFL)
    std::signal(SIGPIPE, SIG_IGN);
}

std::vector<std::shared_ptr<Link>> GlooCommunicator::connect(
    const std::vector<std::vector<int>>& rank_lists) const {
  if (rank_lists.empty()) return {};
  const auto batch =
      std::make_shared<KeyBatch>(store_, static_cast<int>(rank_lists.size()), options_.timeout);
  const auto listening_before = listening_sockets(), connected_before = connected_sockets();
  const auto device = listen_on(options_.address);  // one socket and one event thread for all groups
  std::set<int> listening;
  std::ranges::set_difference(listening_sockets(), listening_before,
                              std::inserter(listening, listening.end()));
  std::vector<std::shared_ptr<Link>> links;
  std::vector<std::exception_ptr> errors(rank_lists.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < rank_lists.size(); ++i) {
    const auto& ranks = rank_lists[i];
    const std::string prefix = cat(options_.prefix, "/", group_name(ranks), "/", num_made_[ranks]++, "/");
    auto link = std::make_shared<Link>();
    link->ranks = ranks;
    link->rank = static_cast<int>(std::ranges::find(ranks, rank()) - ranks.begin());
    link->by_exchange = true;
    links.push_back(link);
    threads.emplace_back([&, i, link, prefix] {
      try {
        auto store =
            c10::make_intrusive<BatchStore>(batch, prefix, link->rank, static_cast<int>(link->ranks.size()));
        link->backend = connected(*link, std::move(store), device, options_.timeout);
      } catch (...) {
        errors[i] = std::current_exception();
      }
      batch->retire();
    });
  }
  for (auto& thread : threads) thread.join();
  num_exchanges_ += batch->num_exchanges();
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
  close_to_strangers(listening);
  const std::scoped_lock lock(mutex_);
  std::ranges::set_difference(connected_sockets(), connected_before, std::inserter(sockets_, sockets_.end()));
  return links;
}

void GlooCommunicator::abort() const {
  const std::scoped_lock lock(mutex_);
  break_off(sockets_);
}

}  // namespace tessera::collective
