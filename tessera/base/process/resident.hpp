// Returns how much memory this process holds, and how many addresses it may still take.
#pragma once

#include <cstdint>
#include <optional>

namespace tessera {

// Resident bytes as the system counts them; 0 where it does not say.
std::int64_t resident_bytes();

// Addresses that this process has taken, of those that it may (ulimit -v).
struct AddressSpace {
  std::int64_t used_bytes = 0, limit_bytes = 0;
  std::int64_t free_bytes() const { return limit_bytes - used_bytes; }
};
// Nothing where there is no limit.
std::optional<AddressSpace> limited_address_space();

}  // namespace tessera
