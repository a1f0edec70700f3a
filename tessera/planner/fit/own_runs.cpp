#include "tessera/planner/fit/own_runs.hpp"

#include <vector>

#include "tessera/base/text.hpp"
#include "tessera/planner/workload.hpp"

namespace tessera::planner {
namespace {

std::vector<std::pair<std::string, std::string>> fields(const spec::Run& run, const Cluster& cluster,
                                                        double seconds) {
  const Workload w = workload_of(run);
  const Device& device = cluster.slowest().device;
  const char* schedule = w.order == PipelineOrder::zb_h1     ? "ZB-1p"
                         : w.order == PipelineOrder::zb_full ? "ZB-V"
                                                             : "1F1B";
  return {{"id", cat("tessera-", run.layout.ranks(), "-", seconds)},
          {"gpu", device.name},
          {"n_gpus", cat(w.devices)},
          {"layers", cat(w.layers)},
          {"hidden", cat(w.hidden)},
          {"ffn", cat(w.ffn)},
          {"heads", cat(w.heads)},
          {"kv_heads", cat(w.kv_heads)},
          {"seq", cat(w.sequence)},
          {"vocab", cat(w.vocab)},
          {"tp", cat(w.tp)},
          {"pp", cat(w.pp)},
          {"dp", cat(w.dp)},
          {"cp", cat(w.cp)},
          {"ep", cat(w.ep)},
          {"vpp", cat(w.virtual_stages)},
          {"micro_batch", cat(w.micro_batch)},
          {"global_batch", cat(w.global_batch)},
          {"zero_stage", cat(w.zero)},
          {"recompute", w.recompute == Recomputed::full        ? "full"
                        : w.recompute == Recomputed::attention ? "selective"
                                                               : "none"},
          {"seq_parallel", w.sequence_parallel ? "1" : "0"},
          {"precision", w.bytes == 2 ? "bf16" : "fp32"},
          {"bytes", cat(w.bytes)},
          {"step_time_s", cat(seconds)},
          {"tflops", cat(device.tflops)},
          {"memory_gbps", cat(device.memory_gbps)},
          {"memory_size_gb", cat(device.memory_gb)},
          {"network_gbps", cat(device.network_gbps)},
          {"issue_seconds", cat(device.issue_seconds)},
          {"fixed_seconds", cat(device.fixed_seconds)},
          {"half_bytes", cat(cluster.network.half_bytes)},
          {"bytes_per_node", cat(cluster.network.bytes_per_node)},
          {"notes", cat("dealt by cost; schedule ", schedule)},
          {"quality", "A"}};
}

}  // namespace

std::string own_columns() {
  Cluster any;
  any.nodes.emplace_back();
  std::vector<std::string> names;
  for (const auto& [name, value] : fields({}, any, 0)) names.push_back(name);
  return join(names, ",");
}

std::string own_record(const spec::Run& run, const Cluster& cluster, double step_seconds) {
  std::vector<std::string> values;
  for (const auto& [name, value] : fields(run, cluster, step_seconds)) values.push_back(value);
  return join(values, ",");
}

}  // namespace tessera::planner
