// Chooses the cheapest set of pieces to recompute so that every rank stays within its memory.
#pragma once

#include <functional>

#include "tessera/plan/stages/cuts.hpp"
#include "tessera/plan/stages/staging.hpp"

namespace tessera::plan {

// One way to cut a block, and its price for a micro-batch.
struct Option {
  Cut cut;
  std::int64_t kept_bytes = 0;  // from its forward to its backward
  std::int64_t during_bytes =
      0;               // at most, while its backward runs: what is kept, and one stretch made again
  double seconds = 0;  // of computing again
};

// What the values between the pieces of a block are made of.
struct BlockValues {
  std::int64_t tokens = 0;  // of a micro-batch
  program::Dtype compute = program::Dtype::fp32;
};

// Every choice of pieces to recompute that no other choice beats in all three, cheapest in time first.
std::vector<Option> options(const BlockValues& values, const program::Unit& block);

// Most bytes that each position on the stage axis holds, if blocks are cut so.
using PeaksOf = std::function<std::vector<std::int64_t>(const Cuts&)>;

struct Budget {
  std::int64_t limit_bytes = 0;  // of each rank
  const Staged& staged;  // which rank computes which unit, and how many micro-batches are under way there
  PeaksOf peaks_of;      // the judge
  BlockValues values;
};

// Note [Recomputation within a budget]
// Per rank a dynamic program over its blocks, first to last: the bytes kept so far against the least seconds.
// While block j runs backward, the blocks before it are held for this micro-batch, all of them for the others
// under way, and block j as its option says. That is a model of the peak; the judge replays the program. So
// the bytes given to the dynamic program are searched for by halving, until the judge finds the most that
// fit; what is left then is used up block by block, and two blocks change places while that saves time, as
// long as few enough programs are compiled for it. Throws UserError, with the least that is possible, if
// nothing fits.
Cuts cuts_within(const Budget& budget, std::span<const program::Unit> blocks);

}  // namespace tessera::plan
