// Lists the layouts that a run may have on a number of ranks. The sizes of axes and ZeRO are crossed, every
// schedule comes with every (pp, cp, tp), or with experts every (pp, ep), all else is dealt by a seed.
// Whether one is legal is spec::problems' answer, nobody else's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/spec/spec.hpp"

namespace tessera::planner {

// What can vary: pp, dp, cp, tp, tp_kind, ep (and etp), zero, schedule, recompute, offload, batch
// (micro-batches, uneven ones too).
const std::vector<std::string>& variable_axes();

struct Variety {
  std::int64_t most_ranks = 8;
  std::vector<std::string> axes = variable_axes();  // the others stay as the run has them
  std::uint64_t seed = 1;
};

// Legal ones, each once. The model has no more layers than its stages need, the rest of it stays.
std::vector<spec::Run> layouts(const spec::Run& run, const Variety& variety);
// The same, but two may have equal programs, as none is compiled.
std::vector<spec::Run> listed_layouts(const spec::Run& run, const Variety& variety);
// Draws `count` listed ones that differ, spread over the list by the seed; fewer if there are no more.
std::vector<spec::Run> drawn_layouts(const std::vector<spec::Run>& listed, std::size_t count,
                                     std::uint64_t seed);

}  // namespace tessera::planner
