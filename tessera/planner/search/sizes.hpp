// How many devices to take: the best layout of each number of them, what it would take and what it would
// cost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/planner/layout_text.hpp"
#include "tessera/planner/search/search.hpp"

namespace tessera::planner {

// What a plan is best by. Time takes all devices; cost and devices take as many as are cheapest, or as few as
// do.
enum class Objective : std::uint8_t { time, cost, devices };

// The fastest layout on so many devices: simulated, or by the least that its bound allows.
struct Scaled {
  bool is_simulated = false;
  double devices = 0, step_seconds = 0, tokens_per_second = 0;
  RunLength length;
  std::string layout;
  double device_hours() const { return length.days * 24 * devices; }
  // Dollars or, if no price is known, hours of one device.
  double cost() const { return length.dollars > 0 ? length.dollars : device_hours(); }
};

// The run as it would be on the cluster's devices. Throws UserError for what is not planned there.
spec::Run on_devices(spec::Run run, const Cluster& cluster);

// One for each number of devices on which a layout may fit, by its bound.
std::vector<Scaled> scaled(const spec::Run& run, const Cluster& cluster, const Constants& constants,
                           const std::vector<double>& devices, double tokens, const Pins& pins = {});

// Parts of a node and numbers of nodes up to all of them, each about 1.4 times the one before.
std::vector<double> sizes_within(const Cluster& cluster);

// The devices of the best; `days` is how long it may take, 0: any time. Throws UserError if none is done by
// then.
double best_size(const std::vector<Scaled>& sizes, Objective objective, double days, double most_devices);

// A table; `chosen` is the number of devices that is marked, and so are those that no other beats in both
// time and cost.
std::string to_text(const std::vector<Scaled>& sizes, double chosen);

}  // namespace tessera::planner
