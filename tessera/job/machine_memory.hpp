// How much memory this machine has, and how much of it this process may use.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::job {

// The tightest of the control groups that the process is in, of version 1 or 2.
struct GroupMemory {
  double limit_bytes = 0, free_bytes = 0;  // what the group could drop of its file cache counts as free
  bool operator==(const GroupMemory&) const = default;
};

struct MachineMemory {
  double total_bytes = 0, available_bytes = 0, free_swap_bytes = 0;
  std::optional<GroupMemory> group;
  // At most this much can ever be used.
  double usable_bytes() const { return group ? std::min(total_bytes, group->limit_bytes) : total_bytes; }
  // Now.
  double free_bytes() const { return group ? std::min(available_bytes, group->free_bytes) : available_bytes; }
};

// `root` stands before /proc and /sys: for tests.
MachineMemory machine_memory(const std::string& root = "");

// The number in a file of a control group; nothing where it says "max" or the file is absent.
std::optional<double> number_in(const std::string& path);
// Where the process stands in the hierarchy of a controller: "4:memory:/x" or, for all of version 2, "0::/x".
std::string group_path(std::string_view controller, const std::string& root = "");

}  // namespace tessera::job
