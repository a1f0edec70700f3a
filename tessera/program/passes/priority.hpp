// The pass that reduces first what the next step needs first.
#pragma once

#include <functional>

#include "tessera/program/passes/draft.hpp"

namespace tessera::program {

using SecondsOf = std::function<double(const Op&)>;

// Note [Priority]
// A backward makes the gradients of the last block first, and the next step needs the weights of the first.
// So the last reductions of the buckets are put into another order: whenever one ends, of those whose
// gradients are there the one whose bucket is used first in a step comes next, and what is left over when the
// backward is through follows in that order, under the next step's forward. When gradients are there and how
// long a reduction takes is foreseen from the seconds of the ops, one after the other on each lane; so the
// order is the same on all ranks, whatever happens at run time. A reduction stands where it would begin; it
// is never put in front of where it stood. Sets that other stages share keep their places, as stages come to
// them at other times.

// Of a draft with reductions and without optimizer steps.
void prioritise(Draft& draft, const Tables& tables, const SecondsOf& seconds);

}  // namespace tessera::program
