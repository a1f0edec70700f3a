#include <map>
#include <mutex>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "tessera/base/error.hpp"
#include "tessera/base/process/key_store.hpp"
#include "tessera/base/text.hpp"
#include "tessera/collective/group_name.hpp"
#include "tessera/collective/link.hpp"
#include "tessera/collective/transports/nccl/nccl.hpp"
#include "tessera/tensor/device.hpp"

namespace tessera::collective {
namespace {

// What NCCL's groups see of a KeyStore: one member leaves the group's id, the others wait for it. `check`
// knows only what this process has seen: its one caller, c10d's monitor, asks for orders of other ranks,
// which come by the launcher here.
class GroupStore final : public c10d::Store {
 public:
  GroupStore(KeyStore& store, std::string prefix, std::chrono::milliseconds timeout)
      : store_(store), prefix_(std::move(prefix)), timeout_(timeout) {}

  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<GroupStore>(store_, prefix_, timeout_);
  }
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    store_.put_and_get({{prefix_ + key, std::string(value.begin(), value.end())}}, {}, timeout_);
    remember(key, value);
  }
  std::vector<std::uint8_t> get(const std::string& key) override {
    const std::string value = store_.put_and_get({}, {prefix_ + key}, timeout_).at(0);
    remember(key, {value.begin(), value.end()});
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const auto& key : keys) get(key);
  }
  // All of a group's waits have one time limit.
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { wait(keys); }
  bool check(const std::vector<std::string>& keys) override {
    const std::scoped_lock lock(mutex_);
    return std::ranges::all_of(keys, [&](const std::string& key) { return seen_.contains(key); });
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    const std::scoped_lock lock(mutex_);  // c10d counts its own groups: a number of this process
    return counts_[key] += amount;
  }
  // Nobody needs a key deleted: the launcher's store ends with the job.
  bool deleteKey(const std::string&) override { return false; }
  std::int64_t getNumKeys() override { throw Bug("NCCL's groups count the keys of the store"); }

 private:
  void remember(const std::string& key, std::vector<std::uint8_t> value) {
    const std::scoped_lock lock(mutex_);
    seen_[key] = std::move(value);
  }

  KeyStore& store_;
  std::string prefix_;
  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::map<std::string, std::vector<std::uint8_t>> seen_;
  std::map<std::string, std::int64_t> counts_;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(KeyStore& store, const Seat& seat)
      : Communicator(seat.rank, seat.size,
                     c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(seat.local_rank))),
        store_(store),
        seat_(seat) {}

 private:
  // One after the other, in the order that all members have: NCCL may hang when two groups connect at once.
  std::vector<std::shared_ptr<Link>> connect(const std::vector<std::vector<int>>& rank_lists) const override {
    std::vector<std::shared_ptr<Link>> links;
    for (const auto& ranks : rank_lists) {
      auto link = make_link(ranks, rank());
      link->backend =
          connected(*link, cat(seat_.prefix, "/", group_name(ranks), "/", num_made_[ranks]++, "/"));
      links.push_back(std::move(link));
    }
    return links;
  }

  c10::intrusive_ptr<c10d::Backend> connected(const Link& link, const std::string& prefix) const {
    auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
    options->timeout = seat_.timeout;
    try {
      auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(
          c10::make_intrusive<GroupStore>(store_, prefix, seat_.timeout), link.rank,
          static_cast<int>(link.ranks.size()), options);
      backend->setBoundDeviceId(device());
      backend->eagerConnectSingleDevice(device());
      return backend;
    } catch (const PeerLost&) {
      throw;
    } catch (const Bug&) {
      throw;
    } catch (const std::exception& error) {
      throw PeerLost(cat("rank ", rank(), " could not connect to its group over NCCL: ", short_text(error)));
    }
  }

  KeyStore& store_;
  const Seat seat_;
  mutable std::map<std::vector<int>, int> num_made_;
};

std::unique_ptr<Communicator> connect_nccl(const Meeting& meeting, const Seat& seat) {
  const int gpus = tensor::num_devices(c10::kCUDA);
  if (seat.local_rank >= gpus)
    throw UserError(cat("rank ", seat.rank, " wants GPU ", seat.local_rank, " of this machine, which has ",
                        gpus, ". Start at most one rank per GPU, or use cluster.transport = \"sockets\"."));
  auto communicator = std::make_unique<NcclCommunicator>(meeting.keys, seat);
  tensor::use_device(communicator->device());
  return communicator;
}

Trial look_for_gpus() {
  const int gpus = tensor::num_devices(c10::kCUDA);
  if (gpus == 0)
    return {Trial::Result::unusable, "in this build, but no GPU is seen",
            "look at the driver with nvidia-smi; the other transports work without"};
  std::string text = cat("in this build, ", gpus, " GPU(s):");
  for (int i = 0; i < gpus; ++i) {
    const auto memory = tensor::device_memory({c10::kCUDA, static_cast<c10::DeviceIndex>(i)});
    text += cat(i ? ", " : " ", bytes_text(static_cast<double>(memory.free_bytes)), " free of ",
                bytes_text(static_cast<double>(memory.total_bytes)));
  }
  return {Trial::Result::works, text, ""};
}

}  // namespace

Transport nccl_transport() { return {.connect = connect_nccl, .try_out = look_for_gpus}; }

}  // namespace tessera::collective
