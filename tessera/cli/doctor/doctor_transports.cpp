#include <chrono>
#include <mutex>
#include <thread>

#include "tessera/base/clock.hpp"
#include "tessera/base/process/peer_connector.hpp"
#include "tessera/base/text.hpp"
#include "tessera/cli/doctor/doctor.hpp"
#include "tessera/collective/nccl/nccl.hpp"
#include "tessera/collective/sockets/sockets.hpp"
#include "tessera/collective/threads/threads.hpp"
#include "tessera/tensor/device.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::cli {

namespace {

constexpr char kSection[] = "transports";

// Ranks 0 and 1 add 1 and 2.
double sum_of_two(const collective::Communicator& communicator) {
  const auto group = collective::make_groups(communicator, {{0, 1}}).at(0);
  tensor::Tensor t = tensor::empty({1000}, at::kFloat).fill_(communicator.rank() + 1);
  group.all_reduce_sum(t);
  return t.sum().item<double>() / 1000;
}

Finding judged(const char* name, double sum, const std::string& failure, double begin, State if_not,
               const char* advice) {
  if (!failure.empty()) return {kSection, name, if_not, cat("does not work: ", failure), advice};
  if (sum != 3)
    return {kSection, name, if_not, cat("adds 1 and 2 to ", sum), "tell the authors: this is a bug"};
  return {kSection, name, State::ok,
          cat("works: two ranks met and summed in ", fixed((now_seconds() - begin) * 1e3, 0), " ms"), ""};
}

Finding try_threads() {
  const double begin = now_seconds();
  double sum = 0;
  collective::run_ranks(2, [&](const collective::Communicator& communicator) {
    const double mine = sum_of_two(communicator);
    if (communicator.rank() == 0) sum = mine;
  });
  return judged("threads", sum, "", begin, State::problem, "");
}

// The two ranks are threads here, which makes no difference to their sockets.
Finding try_sockets() {
  const double begin = now_seconds();
  MemoryConnector connector;
  double sums[2] = {};
  std::mutex mutex;
  std::string failure;  // the first: the other rank's tells only that its peer did not come
  const auto rank = [&](int self) {
    try {
      const collective::SocketCommunicator communicator(connector, self, 2,
                                                        {.timeout = std::chrono::milliseconds(1500)});
      sums[self] = sum_of_two(communicator);
    } catch (const std::exception& error) {
      const std::scoped_lock lock(mutex);
      if (failure.empty()) failure = error.what();
    }
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  return judged(
      "sockets", sums[0] == sums[1] ? sums[0] : 0, failure, begin, State::problem,
      "ranks as processes can't talk: look at the limit of open files (ulimit -n); ranks as threads "
      "(cluster.transport=threads) need no sockets");
}

Finding look_for_nccl() {
  if (!collective::has_nccl())
    return {kSection, "nccl", State::ok, "not in this build, which is for CPUs (docs/cuda.md)", ""};
  const int gpus = tensor::num_devices(c10::kCUDA);
  if (gpus == 0)
    return {kSection, "nccl", State::note, "in this build, but no GPU is seen",
            "look at the driver with nvidia-smi; the other transports work without"};
  std::string text = cat("in this build, ", gpus, " GPU(s):");
  for (int i = 0; i < gpus; ++i) {
    const auto memory = tensor::device_memory({c10::kCUDA, static_cast<c10::DeviceIndex>(i)});
    text += cat(i ? ", " : " ", bytes_text(static_cast<double>(memory.free_bytes)), " free of ",
                bytes_text(static_cast<double>(memory.total_bytes)));
  }
  return {kSection, "nccl", State::ok, text, ""};
}

}  // namespace

void examine_transports(Findings& findings, std::vector<std::string>& usable) {
  for (const auto& finding : {try_threads(), try_sockets()}) {
    findings.push_back(finding);
    if (finding.state == State::ok) usable.push_back(finding.name);
  }
  findings.push_back(look_for_nccl());
  if (collective::has_nccl() && findings.back().state == State::ok) usable.push_back("nccl");
}

}  // namespace tessera::cli
