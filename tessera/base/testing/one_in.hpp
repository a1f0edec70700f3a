// Tests of very many cases take some of them in `.ci/run`, and all in `.ci/long`.
#pragma once

#include <cstdlib>

namespace tessera {

// Of calls one by one: true for the first and each so-manieth after it; for all of them where the environment
// has TESSERA_ALL_CASES. So many should share no factor with the lengths of the loops around it.
class OneIn {
 public:
  explicit OneIn(int many) : many_(std::getenv("TESSERA_ALL_CASES") ? 1 : many) {}
  bool operator()() { return calls_++ % many_ == 0; }

 private:
  const int many_;
  int calls_ = 0;
};

}  // namespace tessera
