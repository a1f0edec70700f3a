// The pass that reduces first what the next step needs first.
#pragma once

#include <cstdint>
#include <functional>

#include "tessera/program/passes/draft.hpp"

namespace tessera::program {

using SecondsOf = std::function<double(const Op&, const Tables&)>;

struct Priority {
  SecondsOf seconds;              // of an op, foreseen
  std::int64_t credit_bytes = 0;  // of gradients on their way at a time, see the note; 0: one reduction
};

// Note [Priority]
// A backward makes the gradients of the last block first, and the next step needs the weights of the first.
// So the last reductions of the buckets are put into another order: whenever one ends, of those whose
// gradients are there the one whose bucket is used first in a step comes next, and what is left over when the
// backward is through follows in that order, under the next step's forward. When gradients are there and how
// long a reduction takes is foreseen from the seconds of the ops, one after the other on each lane; so the
// order is the same on all ranks, whatever happens at run time. A reduction stands where it would begin; it
// is never put in front of where it stood. Sets that other stages share keep their places, as stages come to
// them at other times.
//
// With one reduction on its way at a time a link rests while ranks begin the next one, and while they add up
// what has come. A credit lets the next begin when so many bytes are left; what is on its way is not
// overtaken any more, so a large credit is the order of arrival again. Reductions beside each other need
// channels of their own, which buckets take by turns. When one may begin is an edge of the program: it waits
// for those in front of it that would exceed the credit. A bucket that several stages share keeps its
// channel, which all of them know it by.

// Of a draft with reductions and without optimizer steps. A bucket may get another channel to be reduced
// over.
void prioritise(Draft& draft, Tables& tables, const Priority& priority);

}  // namespace tessera::program
