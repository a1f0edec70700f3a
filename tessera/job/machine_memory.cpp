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

std::string group_path(std::string_view controller, const std::string& root) {
  const std::string groups = file_text(cat(root, "/proc/self/cgroup"));
  const auto at = groups.find(cat(":", controller, ":"));
  if (at == std::string::npos) return "";
  const auto begin = at + controller.size() + 2;
  return groups.substr(begin, groups.find('\n', begin) - begin);
}

namespace {

// One version of control groups.
struct Hierarchy {
  const char *folder, *controller, *limit, *used, *inactive, *active;
};
constexpr Hierarchy kHierarchies[] = {
    {"/sys/fs/cgroup", "", "/memory.max", "/memory.current", "inactive_file", "active_file"},
    {"/sys/fs/cgroup/memory", "memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes",
     "total_inactive_file", "total_active_file"}};

// The number after a name at the start of a line, or 0 if no line starts with the name.
double named(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  double value = 0;
  for (std::string word, rest; lines >> word; std::getline(lines, rest))
    if (word == name && lines >> value) return value;
  return 0;
}

std::optional<GroupMemory> memory_of(const Hierarchy& in, const std::string& folder) {
  constexpr double kUnlimited = 0x1p60;  // version 1 writes a huge number
  const auto limit = number_in(folder + in.limit);
  if (!limit || *limit >= kUnlimited) return std::nullopt;
  const std::string stat = file_text(folder + "/memory.stat");
  const double used =
      number_in(folder + in.used).value_or(0) - named(stat, in.inactive) - named(stat, in.active);
  return GroupMemory{*limit, std::max(0.0, *limit - std::max(0.0, used))};
}

// A limit may stand at any group above that of the process. In a container the path may be that of the host.
std::optional<GroupMemory> group_memory(const std::string& root) {
  std::optional<GroupMemory> out;
  for (const Hierarchy& in : kHierarchies)
    for (std::string path = group_path(in.controller, root);; path.resize(path.rfind('/'))) {
      while (path.ends_with('/')) path.pop_back();
      if (const auto found = memory_of(in, cat(root, in.folder, path)); found) {
        if (!out) out = found;
        out->limit_bytes = std::min(out->limit_bytes, found->limit_bytes);
        out->free_bytes = std::min(out->free_bytes, found->free_bytes);
      }
      if (path.find('/') == path.npos) break;
    }
  return out;
}

}  // namespace

MachineMemory machine_memory(const std::string& root) {
  constexpr double kKiB = 1024;
  const std::string text = file_text(cat(root, "/proc/meminfo"));
  return {.total_bytes = named(text, "MemTotal:") * kKiB,
          .available_bytes = named(text, "MemAvailable:") * kKiB,
          .free_swap_bytes = named(text, "SwapFree:") * kKiB,
          .group = group_memory(root)};
}

}  // namespace tessera::job
