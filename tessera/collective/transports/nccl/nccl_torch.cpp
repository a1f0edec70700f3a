#include <map>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "tessera/base/error.hpp"
#include "tessera/base/process/key_store.hpp"
#include "tessera/base/text.hpp"
#include "tessera/collective/group_name.hpp"
#include "tessera/collective/link.hpp"
#include "tessera/collective/transports/nccl/gpu_of_rank.hpp"
#include "tessera/collective/transports/nccl/group_store.hpp"
#include "tessera/collective/transports/nccl/nccl.hpp"
#include "tessera/tensor/device.hpp"

namespace tessera::collective {
namespace {

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(KeyStore& store, const Seat& seat, int gpu)
      : Communicator(seat.rank, seat.size, c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(gpu))),
        store_(store),
        seat_(seat) {}

 private:
  // One after the other, in the order that all members have: NCCL may hang when two groups connect at once.
  std::vector<std::shared_ptr<Link>> connect(const std::vector<std::vector<int>>& rank_lists) const override {
    std::vector<std::shared_ptr<Link>> links;
    for (const auto& ranks : rank_lists) {
      auto link = make_link(ranks, rank());
      link->backend = connected(*link, cat(group_name(ranks), "/", num_made_[ranks]++));
      links.push_back(std::move(link));
    }
    return links;
  }

  // NCCL and c10d name the group in their logs, and list its global ranks.
  c10::intrusive_ptr<c10d::Backend> connected(const Link& link, const std::string& name) const {
    auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
    options->timeout = seat_.timeout;
    options->group_name = name;
    options->global_ranks_in_group = {link.ranks.begin(), link.ranks.end()};
    try {
      auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(
          group_store(store_, cat(seat_.prefix, "/", name, "/"), seat_.timeout), link.rank,
          static_cast<int>(link.ranks.size()), options);
      backend->setBoundDeviceId(device());
      backend->eagerConnectSingleDevice(device());
      return backend;
    } catch (const PeerLost&) {
      throw;
    } catch (const Bug&) {
      throw;
    } catch (const std::exception& error) {
      if (std::string_view(error.what()).find("Duplicate GPU") != std::string_view::npos)
        throw UserError(cat("rank ", rank(), " shares GPU ", device().index(),
                            " with another rank. Start at most one rank per GPU, or use cluster.transport = "
                            "\"sockets\"."));
      throw PeerLost(cat("rank ", rank(), " could not connect to its group over NCCL: ", short_text(error)));
    }
  }

  KeyStore& store_;
  const Seat seat_;
  mutable std::map<std::vector<int>, int> num_made_;
};

std::unique_ptr<Communicator> connect_nccl(const Meeting& meeting, const Seat& seat) {
  const int gpu = gpu_of_rank(seat, tensor::num_devices(c10::kCUDA));
  auto communicator = std::make_unique<NcclCommunicator>(meeting.keys, seat, gpu);
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
