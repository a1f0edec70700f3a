// The ranks of a job as a list, for tests that make groups.
#pragma once

#include <numeric>
#include <vector>

namespace tessera::collective {

inline std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace tessera::collective
