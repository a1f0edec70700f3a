#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "tessera/base/clock.hpp"
#include "tessera/base/text.hpp"
#include "tessera/cli/plan/this_machine.hpp"
#include "tessera/job/machine_memory.hpp"

namespace tessera::cli {
namespace {

constexpr double kSeconds = 0.4;  // of each measurement

// How often `act` is done in a second, by as many threads as there are cores at most, all together.
template <typename Act>
double per_second(int threads, Act act) {
  std::vector<double> counts(static_cast<std::size_t>(threads), 0);
  std::vector<std::thread> running;
  for (double& count : counts)
    running.emplace_back([&count, &act] {
      auto state = act();
      const double start = now_seconds();
      while (now_seconds() - start < kSeconds) state(), count += 1;
      count /= now_seconds() - start;
    });
  for (std::thread& thread : running) thread.join();
  double out = 0;
  for (const double count : counts) out += count;
  return out;
}

}  // namespace

planner::Cluster this_machine(int ranks) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  constexpr std::int64_t kRows = 512;
  const double products = per_second(std::min(ranks, cores), [] {
    return [a = at::rand({kRows, kRows}), b = at::rand({kRows, kRows}),
            c = at::empty({kRows, kRows})]() mutable { at::mm_out(c, a, b); };
  });
  constexpr std::int64_t kFloats = 4 << 20;
  const double copies = per_second(std::min(ranks, cores), [] {
    return [from = at::rand({kFloats}), to = at::empty({kFloats})]() mutable { to.copy_(from); };
  });
  at::set_num_threads(before);
  planner::NodeKind kind{.name = "machine"};
  planner::Device& device = kind.device;
  device.name = "this-machine";
  // The closed form gives products 0.72 and memory 0.75 of the peak.
  device.tflops = products * 2 * kRows * kRows * kRows / ranks / 0.72 / 1e12;
  device.memory_gbps = copies * 2 * 4 * kFloats / ranks / 0.75 / 1e9;
  device.memory_gb = job::machine_memory().usable_bytes() / ranks / 1e9;
  device.node_devices = 1, device.link_gbps = device.network_gbps = 2;
  device.issue_seconds = 2e-4, device.fixed_seconds = 3e-3;
  kind.count = ranks;
  planner::Cluster out;
  out.name = cat("this machine, ", ranks, " ranks on ", cores, " cores");
  out.nodes = {kind};
  out.network.half_bytes = 1e5, out.network.bytes_per_node = 0;
  planner::join_nodes(out);
  return out;
}

std::string to_text(const planner::Cluster& cluster) {
  std::string out = cat("[cluster]\nname = \"", cluster.name, "\"\nhalf_bytes = ", cluster.network.half_bytes,
                        "\nbytes_per_node = ", cluster.network.bytes_per_node, "\n");
  for (const planner::NodeKind& kind : cluster.nodes) {
    const planner::Device& d = kind.device;
    out += cat("\n[", kind.name, "]\ncount = ", kind.count, "\nnode_devices = ", d.node_devices,
               "\ntflops = ", d.tflops, "\nmemory_gb = ", d.memory_gb, "\nmemory_gbps = ", d.memory_gbps,
               "\nlink_gbps = ", d.link_gbps, "\nnetwork_gbps = ", d.network_gbps,
               "\nissue_seconds = ", d.issue_seconds, "\nfixed_seconds = ", d.fixed_seconds, "\n");
  }
  return out;
}

}  // namespace tessera::cli
