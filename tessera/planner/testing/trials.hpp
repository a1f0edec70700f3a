// Random models and clusters, planned twice or with pinned keys: what a plan must keep to whatever is asked.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::planner {

// A random cluster, and the same with more of one thing: bandwidth, memory, FLOPs or devices. Empty if the
// best step is no longer with more; else what was longer, and by how much.
std::string monotone_violation(std::uint64_t seed, int number);

// A random cluster and one to three random keys that are pinned. Empty if all answers have them, or if the
// search refuses them by name; else what it did.
std::string pin_violation(std::uint64_t seed, int number);

}  // namespace tessera::planner
