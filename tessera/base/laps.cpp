#include "tessera/base/laps.hpp"

#include <unistd.h>

#include <ctime>
#include <fstream>
#include <sstream>

#include "tessera/base/text.hpp"

namespace tessera {

double process_start_seconds(int pid) {
  constexpr int kFieldsBeforeStart =
      19;  // of those after the name, which may hold anything and ends with ')'
  std::ifstream file(cat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(std::min(line.rfind(')') + 1, line.size())));
  std::string field;
  for (int i = 0; i < kFieldsBeforeStart; ++i) fields >> field;
  double ticks = 0;
  if (!(fields >> ticks)) return now_seconds();
  // The kernel counts from boot, sleep included; the steady clock leaves sleep out.
  timespec since_boot{};
  clock_gettime(CLOCK_BOOTTIME, &since_boot);
  const double boot_now =
      static_cast<double>(since_boot.tv_sec) + static_cast<double>(since_boot.tv_nsec) * 1e-9;
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK)) - (boot_now - now_seconds());
}

}  // namespace tessera
