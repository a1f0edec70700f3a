// Looks through all layouts that a run may have on a cluster, and says which are fastest and fit.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/planner/cluster.hpp"
#include "tessera/planner/footprint.hpp"
#include "tessera/planner/pins.hpp"

namespace tessera::planner {

// What is looked for.
struct Limits {
  double memory_bytes = 0;  // that tensors of a rank may take
  std::size_t keep = 256;   // of those whose bound is least
  bool by_form = false;     // the closed form is the price, not a bound of what the simulator says
  Pins pins = {};
};

// What of a device's memory tensors may take: libraries hold some, and allocators leave some unused.
double usable_bytes(const Device& device);
// Of the smallest device.
double usable_bytes(const Cluster& cluster);

struct Candidate {
  spec::Layout layout;
  Workload work;
  Estimate estimate;
  Footprint footprint;
  double least_seconds = 0;  // that the simulator will say of its step, at least
  double bound_bytes = 0;    // that its programs will hold, about
  bool operator==(const Candidate&) const = default;
};

// One layout, priced by the closed form; `speeds` of its ranks, empty: all alike.
Candidate candidate_of(const spec::Run& run, const Device& device, const Network& network,
                       const Constants& constants, const std::vector<double>& speeds);

// How the answer was found: every layout of the space is in one of these numbers.
struct Certificate {
  std::int64_t considered = 0;                 // layouts of the space
  std::map<std::string, std::int64_t> pruned;  // without being priced, by why
  std::int64_t priced = 0;                     // by the closed form
  std::int64_t too_large = 0;                  // of these, those that do not fit
  std::int64_t simulated = 0;                  // of these, as compiled programs
  double gap = 0;      // by what share one that was not simulated could be faster than the best
  double seconds = 0;  // that it took
  std::int64_t num_pruned() const;
  bool operator==(const Certificate&) const = default;
};

struct Found {
  std::vector<Candidate> fitting;  // that may fit, least seconds first
  std::optional<Candidate>
      too_large;  // the fastest that does not fit by less than as much again, if it would be faster
  Certificate certificate;
};

// Note [The space that is searched]
// pp, tp and cp are divisors of the number of devices, dp is the rest, wholly sharded or within a node; tp of
// every kind; cp in a ring or by heads; ep and etp fold over the ranks of dp, cp and tp; the micro-batch
// divides a rank's share of the batch; schedules with their numbers of virtual stages; recomputation none,
// attention or full; ZeRO 0 to 3; the collectives of tp, or of ep, overlapped or not; the optimizer's state
// in host memory or not. What is pinned has its value alone. A branch is left when even its best could not
// count: parameters, gradients and optimizer alone do not fit with ZeRO 3 and full recomputation, or its
// products, attention and element-wise work alone take longer than the slowest layout that is kept. A layout
// is left when the closed form on links without loss takes longer than that, less kSlackOfForm. All others
// have their bound (Note [The bound of a step]), and those with the least are kept. The certificate says how
// much of the space was looked at.
Found search(const spec::Run& run, const Cluster& cluster, const Limits& limits, const Constants& constants);

}  // namespace tessera::planner
