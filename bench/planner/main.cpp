// How fast a plan is looked for, on one thread:
//   build/release/plan_speed
// layouts of the whole space by bounds and the closed form; programs of 16 stages and 64 micro-batches,
// compiled and simulated, and simulated again at other rates, for a model of one block a stage and for one of
// eight.
#include <cstdio>

#include "tessera/base/clock.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/planner/search/rates_for.hpp"
#include "tessera/simulate/report.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

spec::Run model_of(std::int64_t layers) {
  spec::Run run;
  run.model.layers = layers, run.model.hidden = 16384, run.model.heads = 128, run.model.kv_heads = 8;
  run.model.ffn = 53248, run.model.vocab = 128256, run.model.sequence = 8192;
  run.layout.precision = spec::Precision::bf16;
  return run;
}

void search_all(double devices) {
  spec::Run run = model_of(126);
  run.training.global_batch = 2048;
  const planner::Cluster cluster = planner::sized(planner::read_cluster("H100-80GB-SXM:8"), devices);
  const planner::Limits limits{.memory_bytes = planner::usable_bytes(cluster.slowest().device)};
  const planner::Certificate c = planner::search(run, cluster, limits, {}).certificate;
  std::printf("405B on %.0f devices: %lld layouts, %lld of them priced, in %.2f s: %.0f and %.0f a second\n",
              devices, static_cast<long long>(c.considered), static_cast<long long>(c.priced), c.seconds,
              static_cast<double>(c.considered) / c.seconds, static_cast<double>(c.priced) / c.seconds);
}

template <class Body>
double each(int times, const Body& body) {
  const double start = now_seconds();
  for (int i = 0; i < times; ++i) body();
  return (now_seconds() - start) / times;
}

void programs(std::int64_t layers) {
  spec::Run run = model_of(layers);
  run.layout.pp = 16;
  run.training.global_batch = 64;
  const planner::Cluster cluster = planner::read_cluster("H100-80GB-SXM:16");
  const planner::Candidate candidate =
      planner::candidate_of(run, cluster.slowest().device, cluster.network, {}, {});
  const auto simulated = [&](const program::Program& program) {
    const simulate::Rates rates = planner::rates_for(candidate, cluster, {}, program.tables);
    return simulate::report(program, simulate::simulate(program, simulate::costs_at(rates, program)))
        .step_seconds;
  };
  const program::Program program = plan::compile_unchecked(run);
  std::size_t ops = 0;
  for (const auto& sequence : program.classes) ops += sequence.ops.size();
  const double compiled = each(20, [&] { simulated(plan::compile_unchecked(run)); });
  const double again = each(100, [&] { simulated(program); });
  std::printf(
      "%lld blocks on 16 stages, 64 micro-batches, %zu ops: compiled and simulated %.0f a second, simulated "
      "again %.0f\n",
      static_cast<long long>(layers), ops, 1 / compiled, 1 / again);
}

}  // namespace
}  // namespace tessera

int main() {
  tessera::search_all(16384);
  tessera::programs(14);
  tessera::programs(126);
}
