#include "tessera/planner/cluster.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <variant>

#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/base/number.hpp"
#include "tessera/spec/toml_file.hpp"

namespace tessera::planner {
namespace {

// What a number of a cluster file may be.
struct AllowedNumber {
  Range range;
  NumberKind kind = NumberKind::any;
};

constexpr double kMostAmount = 1e12;
constexpr AllowedNumber kAmount{{.least = 0, .most = kMostAmount}};
constexpr AllowedNumber kPositive{{.least = 0, .most = kMostAmount, .open_least = true}};
constexpr AllowedNumber kWholeAmount{{.least = 0, .most = kMostDevices}, NumberKind::whole};
constexpr AllowedNumber kDeviceCount{{.least = 1, .most = kMostDevices}, NumberKind::whole};

double number_of(const spec::Entry& entry, const AllowedNumber& allowed) {
  std::string digits = entry.found;
  if (entry.value && std::holds_alternative<double>(*entry.value))
    digits = cat(std::get<double>(*entry.value));
  if (entry.value && std::holds_alternative<std::int64_t>(*entry.value))
    digits = cat(std::get<std::int64_t>(*entry.value));
  return required_number(cat(entry.where, ": ", entry.name, " ="), digits, allowed.range, allowed.kind);
}

std::string text_of(const spec::Entry& entry) {
  if (entry.value && std::holds_alternative<std::string>(*entry.value))
    return std::get<std::string>(*entry.value);
  throw UserError(cat(entry.where, ": ", entry.name, " wants a text, and is ", entry.found, "."));
}

using Setters = std::map<std::string, std::function<void(const spec::Entry&)>>;

void apply(const spec::Entry& entry, const Setters& setters) {
  if (const auto found = setters.find(entry.name); found != setters.end()) return found->second(entry);
  std::vector<std::string> names;
  for (const auto& [name, setter] : setters) names.push_back(name);
  throw UserError(cat(entry.where, ": [", entry.section, "] has no key ", entry.name,
                      did_you_mean(nearest(entry.name, names)), " It takes ", join(names, ", "), "."));
}

std::function<void(const spec::Entry&)> into(double& value, const AllowedNumber& allowed) {
  return [&value, allowed](const spec::Entry& entry) { value = number_of(entry, allowed); };
}

void set_node(NodeKind& kind, const spec::Entry& entry) {
  Device& device = kind.device;
  double processors = device.multiprocessors;
  apply(entry, {{"device",
                 [&](const spec::Entry& e) {
                   try {
                     device = known_device(text_of(e));
                   } catch (const UserError& error) {
                     throw UserError(cat(e.where, ": ", error.what()));
                   }
                   processors = device.multiprocessors;
                 }},
                {"count", into(kind.count, kDeviceCount)},
                {"dollars_per_hour", into(kind.dollars_per_hour, kAmount)},
                {"node_devices", into(device.node_devices, kDeviceCount)},
                {"tflops", into(device.tflops, kPositive)},
                {"tflops_fp8", into(device.tflops_fp8, kAmount)},
                {"memory_gb", into(device.memory_gb, kPositive)},
                {"memory_gbps", into(device.memory_gbps, kPositive)},
                {"multiprocessors", into(processors, kWholeAmount)},
                {"link_gbps", into(device.link_gbps, kPositive)},
                {"network_gbps", into(device.network_gbps, kPositive)},
                {"issue_seconds", into(device.issue_seconds, kAmount)},
                {"fixed_seconds", into(device.fixed_seconds, kAmount)}});
  device.multiprocessors = std::max(1, static_cast<int>(processors));
}

void check_nodes(const Cluster& cluster, const std::string& name) {
  if (cluster.devices() > kMostDevices)
    throw UserError(
        cat(name, " has ", cluster.devices(), " devices; at most ", kMostDevices, " are allowed."));
  if (cluster.nodes.empty())
    throw UserError(
        cat(name,
            " names no nodes: add a section such as [h100] with device = \"H100-80GB-SXM\" and count = 16."));
  for (const NodeKind& kind : cluster.nodes)
    if (!(kind.device.tflops > 0) || !(kind.device.memory_gb > 0) || !(kind.device.memory_gbps > 0) ||
        kind.count < 1 || kind.device.node_devices < 1)
      throw UserError(
          cat(name, ": [", kind.name,
              "] wants a `device`, or at least tflops, memory_gb and memory_gbps, and a count of nodes."));
}

}  // namespace

void join_nodes(Cluster& cluster) {
  Network& joined = cluster.network;
  const Network given = joined;
  joined = network_of(cluster.nodes.front().device);
  joined.half_bytes = given.half_bytes, joined.bytes_per_node = given.bytes_per_node;
  for (const NodeKind& kind : cluster.nodes) {
    const Network own = network_of(kind.device);
    joined.node_devices = std::min(joined.node_devices, own.node_devices);
    joined.link_gbps = std::min(joined.link_gbps, own.link_gbps);
    joined.network_gbps = std::min(joined.network_gbps, own.network_gbps);
  }
  joined.pod_gbps = given.pod_gbps;
  if (joined.pod_gbps > 0) joined.pod_devices = cluster.pod_nodes * joined.node_devices;
}

double Cluster::devices() const {
  double out = 0;
  for (const NodeKind& kind : nodes) out += kind.count * kind.device.node_devices;
  return out;
}

double Cluster::dollars_per_hour() const {
  double out = 0;
  for (const NodeKind& kind : nodes) out += kind.count * kind.device.node_devices * kind.dollars_per_hour;
  return out / devices();
}

const NodeKind& Cluster::slowest() const {
  return *std::ranges::min_element(nodes, {}, [](const NodeKind& kind) { return kind.device.tflops; });
}

bool Cluster::is_uneven() const {
  return std::ranges::any_of(
      nodes, [&](const NodeKind& kind) { return kind.device.tflops != nodes.front().device.tflops; });
}

void set_devices(NodeKind& kind, double devices, const std::string& what) {
  double& of_node = kind.device.node_devices;
  of_node = std::min(of_node, devices);
  kind.count = devices / of_node;
  if (devices < 1 || std::floor(devices) != devices || std::floor(kind.count) != kind.count)
    throw UserError(cat(what, ": ", devices, " devices are not a whole number of nodes of ", of_node, "."));
}

Cluster sized(const Cluster& cluster, double devices) {
  Cluster out = cluster;
  if (devices > cluster.devices()) {
    out.nodes.resize(1);
    out.nodes.front().count = devices / out.nodes.front().device.node_devices;
  } else {
    double left = devices;
    for (NodeKind& kind : out.nodes) {
      double& of_node = kind.device.node_devices;
      const double taken = std::min(left, kind.count * of_node);
      of_node = std::min(of_node, std::max(taken, 1.0));
      kind.count = taken / of_node;
      left -= taken;
    }
    std::erase_if(out.nodes, [](const NodeKind& kind) { return kind.count == 0; });
  }
  join_nodes(out);
  return out;
}

RunLength run_length(const Cluster& cluster, double tokens, double tokens_per_second) {
  const double failures_per_hour = cluster.devices() / cluster.failure_hours;
  const double lost_hours = (cluster.restart_minutes + cluster.checkpoint_minutes / 2) / 60;
  RunLength out{.lost_to_failures = 1 - 1 / (1 + failures_per_hour * lost_hours)};
  const double hours = tokens / tokens_per_second / 3600 / (1 - out.lost_to_failures);
  out.days = hours / 24;
  out.dollars = hours * cluster.devices() * cluster.dollars_per_hour();
  return out;
}

Cluster parse_cluster(std::string_view text, const std::string& name) {
  Cluster out;
  out.name = name;
  for (const spec::Entry& entry : spec::read_toml(text, name)) {
    if (entry.section.empty())
      throw UserError(
          cat(entry.where, ": ", entry.name, " stands outside of a section. Begin with [cluster]."));
    if (entry.section == "cluster") {
      if (!entry.name.empty())
        apply(entry, {{"name", [&](const spec::Entry& e) { out.name = text_of(e); }},
                      {"failure_hours", into(out.failure_hours, kPositive)},
                      {"restart_minutes", into(out.restart_minutes, kAmount)},
                      {"checkpoint_minutes", into(out.checkpoint_minutes, kAmount)},
                      {"pod_nodes", into(out.pod_nodes, kWholeAmount)},
                      {"pod_gbps", into(out.network.pod_gbps, kAmount)},
                      {"half_bytes", into(out.network.half_bytes, kAmount)},
                      {"bytes_per_node", into(out.network.bytes_per_node, kAmount)}});
      continue;
    }
    if (entry.name.empty())
      out.nodes.push_back({.name = entry.section});
    else
      set_node(out.nodes.back(), entry);
  }
  check_nodes(out, name);
  join_nodes(out);
  return out;
}

Cluster read_cluster(const std::string& file_or_name) {
  std::error_code unreadable;  // a name that is too long, or a folder that may not be entered
  if (std::filesystem::exists(file_or_name, unreadable))
    return parse_cluster(file_text(file_or_name), file_or_name);
  const auto colon = file_or_name.rfind(':');
  if (colon == std::string::npos)
    throw UserError(
        cat("--cluster ", file_or_name,
            ": there is no such file. Give one, or a known device and how many: H100-80GB-SXM:64."));
  const double devices =
      required_number(cat("--cluster ", file_or_name, ": the number of devices"),
                      file_or_name.substr(colon + 1), kDeviceCount.range, kDeviceCount.kind);
  Cluster out;
  out.name = file_or_name;
  NodeKind kind;
  kind.device = known_device(file_or_name.substr(0, colon));
  kind.name = kind.device.name;
  set_devices(kind, devices, cat("--cluster ", file_or_name));
  out.nodes = {kind};
  join_nodes(out);
  return out;
}

}  // namespace tessera::planner
