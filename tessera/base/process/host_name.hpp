#pragma once

#include <string>

namespace tessera {

// The name of this machine, as the system knows it.
std::string host_name();

}  // namespace tessera
