// What the kernel counts of a process.
#pragma once

#include <string>
#include <vector>

namespace tessera {

// The words of /proc/<pid>/stat from the state on, which follows the name; empty when there is no such
// process.
std::vector<std::string> process_stat(int pid);

}  // namespace tessera
