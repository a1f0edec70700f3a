// The calls that an op makes along axis sets, and how many bytes they move: what the counters of a run must
// equal, call by call. How much of a bucket travels as its Wire says.
#pragma once

#include <vector>

#include "tessera/program/ir/types.hpp"

namespace tessera::program {

// In the order of the calls, of a full micro-batch; a send is a shift. None along sets of one rank.
std::vector<Collective> calls_of(const Op& op, const Tables& tables);

// Whether it takes its turn in a rank's one queue of communication, on whichever lane it is: it moves values
// along an axis set, or calls others while it computes.
bool is_queued(const Op& op, const Tables& tables);

// Of so many elements on the way. bf16: two bytes each. int8: a byte each, and a scale of four bytes for
// every block, the last of which is filled up.
std::int64_t packed_bytes(std::int64_t elements, Wire wire, std::int64_t block);

// Of a sum over n ranks, what each of them adds up before all have it; a whole number of blocks.
std::int64_t chunk_elements(std::int64_t elements, std::int64_t n, const Bucket& bucket);

// Matrices of a bucket that are reduced as the product of two thin ones, P and Q; the others go as they are.
bool is_thin(const Parameter& parameter, std::int64_t rank);
struct ThinElements {
  std::int64_t first = 0;   // of all P, and of what goes as it is
  std::int64_t second = 0;  // of all Q
};
ThinElements thin_elements(const Bucket& bucket);

}  // namespace tessera::program
