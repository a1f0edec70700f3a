// Returns how much memory this process holds.
#pragma once

#include <cstdint>

namespace tessera {

// Resident bytes as the system counts them; 0 where it does not say.
std::int64_t resident_bytes();

}  // namespace tessera
