// Makes a run small enough to verify, and keeps it the same kind of run.
#pragma once

#include <string>

#include "tessera/spec/spec.hpp"

namespace tessera::train {

// The most that is left of each size.
struct Smallest {
  std::int64_t heads = 8, head_dim = 16, ffn = 3 * 128, vocab = 300, sequence = 32;
};
inline constexpr Smallest kSeconds;  // verified in seconds
inline constexpr Smallest kMilliseconds{
    .heads = 12, .head_dim = 4, .ffn = 48, .vocab = 48, .sequence = 48};  // of about 10^4 parameters

// The run in fp64, cut down to what is verified soon; `note` says how.
spec::Run shrunk_for_verification(const spec::Run& run, std::string& note,
                                  const Smallest& smallest = kSeconds);

}  // namespace tessera::train
