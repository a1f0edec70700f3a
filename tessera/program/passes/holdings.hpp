// What the ranks of a class hold: the segments their sequence computes, and the buckets that these read or
// that it serves.
#pragma once

#include <vector>

#include "tessera/program/ir/types.hpp"

namespace tessera::program {

struct Holdings {
  std::vector<bool> segments, units, buckets;  // indexed as the tables are
};

Holdings holdings(const Sequence& sequence, const Tables& tables);

}  // namespace tessera::program
