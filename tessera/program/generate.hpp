// Which ops make a step? Generators of the compute order and its reductions from tables.
#pragma once

#include "tessera/program/types.hpp"

namespace tessera::program {

struct GenerateOptions {
  bool overlap = true;  // reductions on their own lane, beside the backward; false: on the compute lane
  bool split_backward = false;  // input and weight halves instead of whole backwards
};

// Gradient accumulation under data parallelism, one class of ranks: tokens are summed first, micro-batches
// run one after the other, each bucket is reduced as soon as its last gradient is made, then numbers and
// steps. Waits are filled.
Program data_parallel(const Tables& tables, const GenerateOptions& options);

}  // namespace tessera::program
