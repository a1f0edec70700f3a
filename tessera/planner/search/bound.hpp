// A lower bound of the step that the simulator would find for a layout, from the costs of the model's units:
// no program is compiled.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/plan/model/step_request.hpp"
#include "tessera/planner/search/search.hpp"
#include "tessera/planner/search/unit_prices.hpp"

namespace tessera::planner {

// How many micro-batches of a stage a rank holds at a time, and how many of these wait for their weight half.
struct InFlight {
  double kept = 0, waiting = 0;
};
using Moment = std::map<std::uint32_t, InFlight>;  // by stage
using Moments = std::vector<Moment>;

// Note [The bound of a step]
// - Units are priced by the same tables and rates as the simulator's ops, and dealt to stages as the compiler
// deals them. A model whose blocks repeat is described with one block of each kind.
// - A rank computes all its units for each micro-batch; a pipeline is filled and drained once, in the
// order of its schedule. 1f1b waits for a value and a gradient to cross once for each micro-batch.
// - Gathers of ZeRO 3 take at least the time of their lane, and reductions of ZeRO 2 and 3 that of theirs.
// Before the first forward the first weights are gathered; behind the last backward the last gradients are
// reduced, and the optimizer steps.
// - Left out: links that several lanes share, waits between lanes, and slots of memory.
class Bound {
 public:
  Bound(const spec::Run& run, const Cluster& cluster, const Constants& constants);

  double seconds(const Candidate& candidate);
  // The same without a pipeline, its stages all alike: less, and sooner found.
  double even_seconds(const Candidate& candidate);
  // That the fullest rank will hold.
  double bytes(const Candidate& candidate);

 private:
  struct Units {
    std::vector<UnitSeconds> seconds;
    std::vector<UnitBytes> bytes;
    double value_bytes = 0;  // that crosses from one stage to the next
  };

  const Units& units_of(const Candidate& candidate);
  const std::vector<Moments>& moments(const Candidate& candidate);
  Units described(const Candidate& candidate);
  const std::vector<std::uint32_t>& dealt(const spec::Layout& layout, const Units& units);

  const spec::Run& run_;
  const Cluster& cluster_;
  const Constants constants_;
  std::vector<std::size_t> unit_like_;  // by unit of the run: the one of small_ that it is like
  spec::Run small_;                     // the run with one block of each kind
  std::map<std::string, plan::StepRequest> requests_;  // by what a model plan depends on
  std::map<std::string, Units> units_;
  std::map<std::string, std::vector<std::uint32_t>> dealt_;
  std::map<std::string, std::vector<Moments>> moments_;  // by rank
};

}  // namespace tessera::planner
