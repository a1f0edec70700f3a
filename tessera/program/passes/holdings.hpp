// What lies on the ranks of a class? The segments its sequence computes, and the buckets these read.
#pragma once

#include <vector>

#include "tessera/program/ir/types.hpp"

namespace tessera::program {

struct Holdings {
  std::vector<bool> segments, units, buckets;  // indexed as the tables are
};

Holdings holdings(const Sequence& sequence, const Tables& tables);

}  // namespace tessera::program
