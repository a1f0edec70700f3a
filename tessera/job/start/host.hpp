// Room on a disk. Memory is in job/machine_memory.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tessera::job {

struct Disk {
  std::uint64_t device = 0;
  double free_bytes = 0;  // without what is reserved for the administrator
};
// Free bytes of the file system that holds the path, or will once it is made; nullopt if it does not say.
std::optional<Disk> disk_of(const std::string& path);

}  // namespace tessera::job
