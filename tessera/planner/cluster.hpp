// The devices that a plan is made for: kinds of nodes, how they are joined, what they cost and how often they
// fail.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/planner/estimate.hpp"

namespace tessera::planner {

// Equal nodes.
struct NodeKind {
  std::string name;
  Device device;
  double count = 1;
  double dollars_per_hour = 0;  // of one device; 0: not known
  bool operator==(const NodeKind&) const = default;
};

struct Cluster {
  std::string name;
  std::vector<NodeKind> nodes;
  Network network;
  double pod_nodes = 0;          // nodes that the network joins at its full rate; 0: all
  double failure_hours = 50000;  // between two failures of one device
  double restart_minutes = 10;
  double checkpoint_minutes = 30;  // between two saves
  double devices() const;
  // Of one device, in the mean; 0: not known.
  double dollars_per_hour() const;
  // The kind whose products are slowest.
  const NodeKind& slowest() const;
  // Whether devices differ in speed.
  bool is_uneven() const;
  bool operator==(const Cluster&) const = default;
};

constexpr double kMostDevices = 1 << 20;  // as many as a layout may have ranks

// Gives a kind that many devices: whole nodes, or a part of one. `what` begins the message if it cannot.
void set_devices(NodeKind& kind, double devices, const std::string& what);

// The first so many devices of a cluster, node by node; more than it has: of its first kind alone.
Cluster sized(const Cluster& cluster, double devices);

// What it takes to train on so many tokens, with what failures cost.
struct RunLength {
  double lost_to_failures = 0;  // share of the time
  double days = 0;
  double dollars = 0;  // 0: no price is known
};
RunLength run_length(const Cluster& cluster, double tokens, double tokens_per_second);

// A file, or NAME:DEVICES for so many of a known device. In the file, [cluster] says what holds for all of
// it, each other section is a kind of node: `device` names a known one, and every number of it may be given
// instead (docs/planner.md). Throws UserError with file and line.
Cluster read_cluster(const std::string& file_or_name);
Cluster parse_cluster(std::string_view text, const std::string& name);

// Its network is that of its nodes: the slowest link anywhere bounds a collective that spans all of them.
void join_nodes(Cluster& cluster);

}  // namespace tessera::planner
