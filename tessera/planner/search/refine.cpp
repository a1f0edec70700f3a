#include "tessera/planner/search/refine.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "tessera/base/statistics.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/memory/memory.hpp"
#include "tessera/planner/search/deal.hpp"
#include "tessera/simulate/report.hpp"
#include "tessera/simulate/simulate.hpp"
#include "tessera/spec/problems.hpp"

namespace tessera::planner {
namespace {

// FLOPs and memory traffic of the forwards of all blocks.
std::pair<double, double> forward_of_blocks(const program::Tables& tables) {
  double flops = 0, moved = 0;
  for (const program::Unit& unit : tables.units) {
    if (!unit.name.starts_with("block")) continue;
    for (const program::Piece& piece : unit.pieces) {
      flops += piece.flops;
      moved += static_cast<double>(piece.bytes_read + piece.bytes_written);
    }
  }
  return {flops, moved};
}

simulate::Rates::Link link_of(const program::AxisSet& set, const program::Tables& tables,
                              const Network& network) {
  double stride = 1, size = 1;
  std::size_t innermost = tables.axes.size();
  for (const std::int16_t axis : set.axes) {
    size *= static_cast<double>(tables.axes[static_cast<std::size_t>(axis)].size);
    innermost = std::min(innermost, static_cast<std::size_t>(axis));
  }
  if (!set.axes.empty()) innermost = static_cast<std::size_t>(*std::ranges::max_element(set.axes));
  for (std::size_t i = innermost + 1; i < tables.axes.size(); ++i)
    stride *= static_cast<double>(tables.axes[i].size);
  const double in_node = network.link_gbps * 1e9 * 0.75;
  if (size * stride <= network.node_devices) return {in_node, 8e-6};
  const double members = std::max(1.0, network.node_devices / stride);
  return {std::min(in_node, network.network_gbps * 1e9 * 0.8 * members), 25e-6};
}

// The run with so many micro-batches.
spec::Run of_micro_batches(spec::Run run, std::int64_t count) {
  run.training.global_batch = count * run.layout.dp() * run.layout.micro_batch;
  run.layout.micro_batches_by_rank.clear();
  return run;
}

// Compiles and simulates a step of the run; fills in what is told of it, and returns its seconds.
double simulate_step(const spec::Run& run, const Cluster& cluster, const Constants& constants, Refined& out) {
  const program::Program program = plan::compile_unchecked(run);
  const simulate::Rates rates = rates_for(out.candidate, cluster, constants, program.tables);
  const simulate::Report report =
      simulate::report(program, simulate::simulate(program, simulate::costs_at(rates, program)));
  double busy = 0, ranks = 0;
  for (const auto& of_class : report.classes) {
    busy += of_class.busy * static_cast<double>(of_class.num_ranks);
    ranks += static_cast<double>(of_class.num_ranks);
  }
  out.seconds = report.step_seconds, out.bubble = report.bubble;
  out.exposed = std::max(0.0, 1 - busy / ranks * report.makespan / report.step_seconds);
  out.peak_bytes.clear();
  for (const plan::RankMemory& rank : plan::memory_of(program, plan::device_plan(run, program)))
    out.peak_bytes.push_back(static_cast<double>(rank.peak_bytes));
  return out.seconds;
}

}  // namespace

double Refined::most_bytes() const { return *std::ranges::max_element(peak_bytes); }

simulate::Rates rates_for(const Candidate& candidate, const Cluster& cluster, const Constants& constants,
                          const program::Tables& tables) {
  simulate::Rates out;
  const Device& device = cluster.slowest().device;
  out.memory_bytes = device.memory_gbps * 1e9 * 0.75 * constants.memory;
  const auto [flops, moved] = forward_of_blocks(tables);
  const Estimate& e = candidate.estimate;
  // All three passes of one micro-batch over the blocks of one stage; a forward is a third.
  const double compute = (e.products + e.attention + e.elementwise) / candidate.work.micro_batches() *
                         candidate.work.pp * candidate.work.slowest_share;
  const double beside_memory = std::max(compute - 3 * moved / out.memory_bytes, 0.2 * compute);
  out.flops = 3 * flops / beside_memory;
  for (const program::AxisSet& set : tables.axis_sets)
    out.links.push_back(link_of(set, tables, cluster.network));
  return out;
}

Refined refine_one(const spec::Run& run, const Cluster& cluster, const Constants& constants) {
  Refined out;
  out.run = run;
  out.candidate = candidate_of(run, cluster.slowest().device, cluster.network, constants,
                               speeds_of(cluster, run, constants));
  const std::int64_t all = run.num_micro_batches(), some = std::max<std::int64_t>(3 * run.layout.pp, 4),
                     more = some + run.layout.pp;
  if (all <= more) {
    simulate_step(run, cluster, constants, out);
  } else {
    const double first = simulate_step(of_micro_batches(run, some), cluster, constants, out);
    const double second = simulate_step(of_micro_batches(run, more), cluster, constants, out);
    const double each = (second - first) / static_cast<double>(more - some);
    out.seconds = second + each * static_cast<double>(all - more);
    out.bubble *= second / out.seconds, out.exposed *= second / out.seconds;
  }
  out.seconds += out.candidate.estimate.fixed;
  // Ranks that are equal by symmetry are simulated as one: of unequal devices the closed form tells.
  if (cluster.is_uneven()) out.seconds = out.candidate.estimate.step;
  return out;
}

std::vector<Refined> refine(const spec::Run& run, const Found& found, const Cluster& cluster,
                            const Limits& limits, const Constants& constants, std::size_t count,
                            double* over) {
  constexpr std::size_t kTriesForEach = 3;  // layouts that are compiled for one that fits, at most
  std::vector<Refined> out;
  std::size_t compiled = 0;
  std::vector<double> ratios;
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>> tried;
  for (const Candidate& candidate : found.fitting) {
    if (out.size() == count || compiled == kTriesForEach * count) break;
    // Two that differ in details of one mesh are not both alternatives.
    const spec::Layout& layout = candidate.layout;
    const bool is_new = tried.insert({layout.pp, layout.tp, layout.cp, layout.ep, layout.micro_batch}).second;
    if (!is_new && (out.size() > 2 || !layout.offload.empty())) continue;
    spec::Run one = run;
    one.layout = candidate.layout;
    one.layout.precision = run.layout.precision;
    one.cluster.devices = 0;
    if (!spec::problems(one, spec::any_build()).empty()) continue;
    ++compiled;
    Refined refined = refine_one(one, cluster, constants);
    if (refined.most_bytes() > limits.memory_bytes) {
      ratios.push_back(refined.most_bytes() / candidate.footprint.peak);
      continue;
    }
    out.push_back(std::move(refined));
  }
  if (over) *over = ratios.empty() ? 0 : 1.02 * median(ratios);
  std::ranges::sort(out, {}, &Refined::seconds);
  return out;
}

}  // namespace tessera::planner
