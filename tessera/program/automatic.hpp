// Which order suits these costs and this memory? A search over placements and orders; the fixed schedules are among
// its candidates, so it is never worse than the best of them that holds no more.
#pragma once

#include <limits>
#include <string>

#include "tessera/program/schedules.hpp"

namespace tessera::program {

struct Limits {
  std::int64_t activations =
      std::numeric_limits<std::int64_t>::max();  // of a stage, held on any rank at a time
  std::int64_t tasks =
      25'000'000;  // walked while searching: the effort, counted, so that the answer is always the same
};

struct Found {
  Order order;         // of the pipeline's num_ranks * num_virtual stages
  std::string winner;  // the schedule or construction that it came from
  double makespan = 0;
};

// The fastest order found within the limits; throws UserError if no order holds so little.
Found automatic(const Pipeline& pipeline, const Limits& limits = {});

// The fixed schedules that the stages can be grouped into, as orders of all num_ranks * num_virtual stages, by name.
// Schedules with fewer stages per rank run several neighbouring stages as one.
std::vector<Found> fixed_candidates(const Pipeline& pipeline);

}  // namespace tessera::program
