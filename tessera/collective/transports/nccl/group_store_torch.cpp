#include "tessera/collective/transports/nccl/group_store.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace tessera::collective {
namespace {

using Bytes = std::vector<std::uint8_t>;

class GroupStore final : public c10d::Store {
 public:
  GroupStore(KeyStore& keys, std::string prefix, std::chrono::milliseconds timeout)
      : keys_(keys), prefix_(std::move(prefix)), timeout_(timeout) {}

  c10::intrusive_ptr<c10d::Store> clone() override { return group_store(keys_, prefix_, timeout_); }
  void set(const std::string& key, const Bytes& value) override {
    keys_.put_and_get({{prefix_ + key, std::string(value.begin(), value.end())}}, {}, timeout_);
    remember(key, value);
  }
  Bytes get(const std::string& key) override {
    const std::string value = keys_.put_and_get({}, {prefix_ + key}, timeout_).at(0);
    remember(key, {value.begin(), value.end()});
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const auto& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { wait(keys); }
  bool check(const std::vector<std::string>& keys) override {
    const std::scoped_lock lock(mutex_);
    return std::ranges::all_of(keys, [&](const std::string& key) { return seen_.contains(key); });
  }
  // c10d counts its own groups: the sum is a number of this process.
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    const std::scoped_lock lock(mutex_);
    return counts_[key] += amount;
  }
  // No key needs to be deleted: the launcher's store ends with the job.
  bool deleteKey(const std::string&) override { return false; }
  std::int64_t getNumKeys() override {
    const std::scoped_lock lock(mutex_);
    const auto is_new = [&](const auto& count) { return !seen_.contains(count.first); };
    return static_cast<std::int64_t>(seen_.size()) + std::ranges::count_if(counts_, is_new);
  }

 private:
  void remember(const std::string& key, Bytes value) {
    const std::scoped_lock lock(mutex_);
    seen_[key] = std::move(value);
  }

  KeyStore& keys_;
  std::string prefix_;
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::map<std::string, Bytes> seen_;
  std::map<std::string, std::int64_t> counts_;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> group_store(KeyStore& keys, std::string prefix,
                                            std::chrono::milliseconds timeout) {
  return c10::make_intrusive<GroupStore>(keys, std::move(prefix), timeout);
}

}  // namespace tessera::collective
