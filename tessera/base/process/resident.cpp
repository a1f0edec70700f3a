#include "tessera/base/process/resident.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace tessera {

namespace {

struct Pages {
  std::int64_t total = 0, resident = 0;
};

Pages pages() {
  std::ifstream statm("/proc/self/statm");
  Pages out;
  return statm >> out.total >> out.resident ? out : Pages();
}

}  // namespace

std::int64_t resident_bytes() { return pages().resident * sysconf(_SC_PAGESIZE); }

std::optional<AddressSpace> limited_address_space() {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return AddressSpace{pages().total * sysconf(_SC_PAGESIZE), static_cast<std::int64_t>(limit.rlim_cur)};
}

}  // namespace tessera
