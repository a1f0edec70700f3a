// How much memory this machine has, and how much of it this process may use.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::job {

struct MachineMemory {
  double total_bytes = 0, available_bytes = 0;
  std::optional<double> limit_bytes;  // of the process's control group
  double usable_bytes() const { return std::min(total_bytes, limit_bytes.value_or(total_bytes)); }
};

MachineMemory machine_memory();

// The number in a file of a control group; nothing where it says "max" or the file is absent.
std::optional<double> number_in(const std::string& path);
// Where the process stands in the hierarchy of a controller: "4:memory:/x" or, for all of version 2, "0::/x".
std::string group_path(std::string_view controller);

}  // namespace tessera::job
