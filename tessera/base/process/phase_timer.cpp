#include "tessera/base/process/phase_timer.hpp"

#include <unistd.h>

#include <ctime>

#include "tessera/base/process/process_stat.hpp"

namespace tessera {

double process_start_seconds(int pid) {
  constexpr std::size_t kStart = 19;
  const auto words = process_stat(pid);
  if (words.size() <= kStart) return now_seconds();
  const double ticks = std::stod(words[kStart]);
  // The kernel counts from boot, sleep included; the steady clock leaves sleep out.
  timespec since_boot{};
  clock_gettime(CLOCK_BOOTTIME, &since_boot);
  const double boot_now =
      static_cast<double>(since_boot.tv_sec) + static_cast<double>(since_boot.tv_nsec) * 1e-9;
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK)) - (boot_now - now_seconds());
}

}  // namespace tessera
