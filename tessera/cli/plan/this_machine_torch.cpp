#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <thread>
#include <vector>

#include "tessera/base/clock.hpp"
#include "tessera/base/text.hpp"
#include "tessera/cli/plan/this_machine.hpp"
#include "tessera/job/machine_memory.hpp"
#include "tessera/job/start/start.hpp"
#include "tessera/plan/model/pieces.hpp"
#include "tessera/shard/flat_bucket.hpp"
#include "tessera/tensor/peak.hpp"

namespace tessera::cli {
namespace {

constexpr double kSeconds = 0.4;  // of each measurement

// How often each of so many threads, one to a core, does `act` in a second while the others do it too.
template <typename Act>
std::vector<double> per_second(int threads, Act act) {
  std::vector<double> counts(static_cast<std::size_t>(threads), 0);
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i)
    running.emplace_back([&count = counts[static_cast<std::size_t>(i)], &act, i] {
      cpu_set_t core;
      CPU_ZERO(&core);
      CPU_SET(static_cast<std::size_t>(i), &core);
      pthread_setaffinity_np(pthread_self(), sizeof core,
                             &core);  // where it is refused, the measure is of any core
      auto state = act();
      const double start = now_seconds();
      while (now_seconds() - start < kSeconds) state(), count += 1;
      count /= now_seconds() - start;
    });
  for (std::thread& thread : running) thread.join();
  return counts;
}

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

planner::Cluster this_machine(int ranks, spec::Precision precision) {
  const auto dtype = shard::to_torch(plan::compute_dtype(precision));
  if (const auto speed = tensor::product_speed(dtype); speed.is_slow())
    std::fputs(cat("warning: ", job::slow_products_text(precision, speed), "\n").c_str(), stderr);
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  constexpr std::int64_t kRows = 512;
  const int busy = std::min(ranks, cores);
  const std::vector<double> products = per_second(busy, [dtype] {
    return [a = at::rand({kRows, kRows}).to(dtype), b = at::rand({kRows, kRows}).to(dtype),
            c = at::empty({kRows, kRows}, dtype)]() mutable { at::mm_out(c, a, b); };
  });
  constexpr std::int64_t kFloats = 4 << 20;
  const std::vector<double> copies = per_second(busy, [] {
    return [from = at::rand({kFloats}), to = at::empty({kFloats})]() mutable { to.copy_(from); };
  });
  at::set_num_threads(before);
  // The closed form gives products 0.72 and memory 0.75 of the peak.
  const double flops = 2.0 * kRows * kRows * kRows / 0.72 / 1e12, bytes = 2 * 4 * kFloats / 0.75 / 1e9;
  const auto kind_of = [&](const std::string& name, double count, double product, double copy) {
    planner::NodeKind kind{.name = name, .count = count};
    planner::Device& device = kind.device;
    device.name = "this-machine";
    device.tflops = product * flops, device.memory_gbps = copy * bytes;
    device.memory_gb = job::machine_memory().usable_bytes() / ranks / 1e9;
    device.node_devices = 1, device.link_gbps = device.network_gbps = 2;
    device.issue_seconds = 2e-4, device.fixed_seconds = 3e-3;
    return kind;
  };
  planner::Cluster out;
  out.name = cat("this machine, ", ranks, " ranks on ", cores, " cores");
  const auto [slowest, fastest] = std::ranges::minmax(products);
  constexpr double kUneven = 1.25;  // others on one of the cores, or cores of two kinds
  if (ranks == busy && fastest > kUneven * slowest) {
    for (int i = 0; i < ranks; ++i) {
      const auto core = static_cast<std::size_t>(i);
      out.nodes.push_back(kind_of(cat("core", i), 1, products[core], copies[core]));
    }
  } else {
    out.nodes = {kind_of("machine", ranks, sum_of(products) / ranks, sum_of(copies) / ranks)};
  }
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
