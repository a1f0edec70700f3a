// Binds ranks to cores. Each rank of a host gets a share of its own, of neighbouring cores.
#pragma once

#include <string>

namespace tessera::launch {

// Divides the cores that this process may use into `local_size` shares in the order of the machine's topology
// and binds all threads of the process, and those that it starts later, to share `local_rank`. With more
// ranks than cores rank r gets core r modulo their number. Call it before threads are started. Returns the
// share as a list like "0,4-7", or "" when the system doesn't let it be bound.
std::string pin_threads(int local_rank, int local_size);

}  // namespace tessera::launch
