// How values of a bucket travel: as they are, or in fewer bytes.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/program/ir/tables.hpp"

namespace tessera::program {

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
