#include "tessera/job/machine_memory.hpp"

#include <cstdlib>
#include <sstream>

#include "tessera/base/files/file_text.hpp"
#include "tessera/base/text.hpp"

namespace tessera::job {

std::optional<double> number_in(const std::string& path) {
  const std::string line = first_line(path);
  if (line.empty() || line.front() < '0' || line.front() > '9') return std::nullopt;
  return std::strtod(line.c_str(), nullptr);
}

std::string group_path(std::string_view controller) {
  const std::string groups = file_text("/proc/self/cgroup");
  const auto at = groups.find(cat(":", controller, ":"));
  if (at == std::string::npos) return "";
  const auto begin = at + controller.size() + 2;
  return groups.substr(begin, groups.find('\n', begin) - begin);
}

namespace {

std::optional<double> memory_limit() {
  constexpr double kUnlimited = 0x1p60;  // version 1 writes a huge number
  std::optional<double> least;
  for (const auto& path :
       {cat("/sys/fs/cgroup", group_path(""), "/memory.max"), std::string("/sys/fs/cgroup/memory.max"),
        cat("/sys/fs/cgroup/memory", group_path("memory"), "/memory.limit_in_bytes"),
        std::string("/sys/fs/cgroup/memory/memory.limit_in_bytes")})
    if (const auto limit = number_in(path); limit && *limit < kUnlimited)
      least = std::min(least.value_or(*limit), *limit);
  return least;
}

}  // namespace

MachineMemory machine_memory() {
  MachineMemory out{.limit_bytes = memory_limit()};
  std::istringstream lines(file_text("/proc/meminfo"));
  for (std::string name, unit; lines >> name;) {
    double kib = 0;
    lines >> kib;
    std::getline(lines, unit);
    if (name == "MemTotal:") out.total_bytes = kib * 1024;
    if (name == "MemAvailable:") out.available_bytes = kib * 1024;
  }
  return out;
}

}  // namespace tessera::job
