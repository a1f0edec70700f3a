#include "tessera/base/process/host_name.hpp"

#include <unistd.h>

#include <array>
#include <climits>

namespace tessera {

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), HOST_NAME_MAX);
  return name.data();
}

}  // namespace tessera
