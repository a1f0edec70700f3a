#include "tessera/base/process/resident.hpp"

#include <unistd.h>

#include <fstream>

namespace tessera {

std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total_pages = 0, resident_pages = 0;
  if (!(statm >> total_pages >> resident_pages)) return 0;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

}  // namespace tessera
