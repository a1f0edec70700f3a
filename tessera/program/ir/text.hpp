// The text form of a program. One op a line: 2F0 2I0 2W0 2B0 2R0 for compute, g5 r5 s5 for buckets, >2.0 <2.0
// for transfers. Lossless for ops; the tables are handed to the parser, which takes axis names from them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/program/ir/types.hpp"

namespace tessera::program {

// Note [Text form]
//   class 0
//     5: 2B1 @compute wait 3,^7        op 5 of class 0: backward of segment 2, micro-batch 1; waits for op 3
//                                      of this step and op 7 of the step before
//     6: r2! @dp over dp               reduce bucket 2 and end its WeightGrad, on the lane of axis set dp
// word: <segment><F|N|R|B|I|W><micro>  forward, forward without tape, recompute, backward, its halves
//       g<b> r<b> s<b>                 gather, reduce, step
//       ><cell> <<cell> x<cell>        send, receive, exchange
//       o<cell> f<cell> d<cell>        offload, fetch, free
//       +<name of number>              sum
// cell: a letter unless it is a value: G gradient, T tape, K weight work, U full, W weight gradient, S shard,
//       Z shard gradient, A state, N number; then its index, and .micro unless it belongs to the whole step
// marks after the word: ! ends its source; /2 part 2
// lane: @compute, @copy, @<axis set>, @<axis set>- (downwards); then: over <axis set>, hop <n>, cost <class>,
//       wait <list>

// The word of one op: what error messages, drawings and goldens call it.
std::string word(const Op& op, const Tables& tables);

// The words of a sequence, separated by spaces.
std::string words(const Sequence& sequence, const Tables& tables);

// The words of the ops of the same step that the op waits for.
std::string waited_words(const Sequence& sequence, const Op& op, const Tables& tables);

// The lane in words: "compute", "copy", "communication dp", "communication dp down".
std::string name_of(const Lane& lane, const Tables& tables);

// All ops of all classes, a line each.
std::string to_text(const Program& program);

// The program with these tables and the ops of the text. Blank lines and # comments are skipped. Throws
// UserError naming the line.
Program parse(std::string_view text, const Tables& tables);

}  // namespace tessera::program
