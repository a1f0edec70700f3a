// The sizes of a model that the ranks of tp and cp can share.
#pragma once

#include <string>
#include <vector>

#include "tessera/spec/spec.hpp"

namespace tessera::spec {

struct SplitProblem {
  std::string key, why;  // why: what follows "key = value"
};

// What does not divide, with the nearest that does: the first of it.
std::vector<SplitProblem> split_problems(const Run& run);

}  // namespace tessera::spec
