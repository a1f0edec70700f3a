#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>

#include "tessera/base/files/file_text.hpp"
#include "tessera/base/text.hpp"
#include "tessera/base/version.hpp"
#include "tessera/cli/doctor/doctor.hpp"
#include "tessera/job/machine_memory.hpp"
#include "tessera/job/start/start.hpp"
#include "tessera/tensor/peak.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::cli {

namespace {

constexpr double kMiB = 1 << 20, kGiB = 1 << 30;

// The rest of the first line that starts with `name`, after its colon.
std::string line_of(std::string_view text, std::string_view name) {
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    const auto line = text.substr(at, end - at);
    if (const auto colon = line.find(':'); line.starts_with(name) && colon != line.npos)
      return std::string(line.substr(std::min(colon + 2, line.size())));
    at = end + 1;
  }
  return "";
}

// Cores that the time slices of a control group add up to.
std::optional<double> core_quota() {
  const std::string line = first_line(cat("/sys/fs/cgroup", job::group_path(""), "/cpu.max"));
  char* rest = nullptr;
  if (const double quota = std::strtod(line.c_str(), &rest); quota > 0)
    return quota / std::strtod(rest, nullptr);
  const auto quota = job::number_in("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
             period = job::number_in("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  return quota && period && *period > 0 ? std::optional(*quota / *period) : std::nullopt;
}

}  // namespace

std::vector<std::string> instruction_sets(std::string_view cpuinfo) {
  const std::string flags = cat(" ", line_of(cpuinfo, "flags"), " ");
  std::vector<std::string> out;
  for (const auto& [flag, name] : {std::pair{"avx2", "AVX2"},
                                   {"avx512f", "AVX-512"},
                                   {"avx512_bf16", "AVX-512 bf16"},
                                   {"amx_bf16", "AMX bf16"},
                                   {"amx_fp16", "AMX fp16"}})
    if (flags.find(cat(" ", flag, " ")) != std::string::npos) out.push_back(name);
  return out;
}

int physical_cores(std::string_view cpuinfo) {
  std::set<std::pair<std::string, std::string>> cores;
  for (auto at = cpuinfo.find("processor"); at != cpuinfo.npos; at = cpuinfo.find("\nprocessor", at + 1)) {
    const auto next = cpuinfo.find("\nprocessor", at + 1);
    const auto part = cpuinfo.substr(at, next == cpuinfo.npos ? next : next - at);
    const std::string core = line_of(part, "core id");
    if (!core.empty()) cores.emplace(line_of(part, "physical id"), core);
  }
  return static_cast<int>(cores.size());
}

void examine_versions(Findings& findings) {
  const auto add = [&](const char* name, std::string value) {
    findings.push_back({"versions", name, State::ok, std::move(value), ""});
  };
  utsname system{};
  uname(&system);
  add("tessera", kVersion);
  add("LibTorch", cat(tensor::engine_version(), ", kernels for ", tensor::kernel_level()));
  add("compiler", cat("g++ ", __VERSION__));
  add("kernel", cat(system.sysname, " ", system.release, ", ", system.machine));
}

void examine_processor(Findings& findings) {
  const std::string cpuinfo = file_text("/proc/cpuinfo");
  const auto sets = instruction_sets(cpuinfo);
  findings.push_back({"processor", "model", State::ok, line_of(cpuinfo, "model name"), ""});
  Finding units{"processor", "instruction sets", State::ok,
                sets.empty() ? "none of AVX2, AVX-512, AMX" : join(sets, ", "), ""};
  const auto products = tensor::product_speed(at::kBFloat16);
  if (products.is_slow())
    units.state = State::note, units.advice = job::slow_products_text(spec::Precision::bf16, products);
  findings.push_back(units);

  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  const int allowed = CPU_COUNT(&set), physical = physical_cores(cpuinfo);
  const auto quota = core_quota();
  Finding cores{"processor", "cores", State::ok,
                cat(allowed, " allowed of ", sysconf(_SC_NPROCESSORS_ONLN),
                    physical ? cat(", ", physical, " physical") : "",
                    quota ? cat(", time for ", fixed(*quota, 1)) : ""),
                ""};
  const double real =
      std::min<double>(quota.value_or(allowed), physical ? std::min(allowed, physical) : allowed);
  if (real < allowed)
    cores.state = State::note,
    cores.advice = cat("a rank computes on one thread: start at most ", std::max(1, static_cast<int>(real)),
                       " ranks here (--procs), or they take turns");
  findings.push_back(cores);

  const double load = std::strtod(first_line("/proc/loadavg").c_str(), nullptr);
  Finding busy{"processor", "load", State::ok, cat(fixed(load, 2), " over the last minute"), ""};
  if (load > real)
    busy.state = State::note,
    busy.advice = "other programs use these cores: ranks that meet wait for the slowest";
  findings.push_back(busy);

  const std::string governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (governor.empty()) return;
  Finding speed{"processor", "governor", State::ok, governor, ""};
  if (governor == "powersave")
    speed.state = State::note,
    speed.advice = "the cores may be held slow: cpupower frequency-set -g performance";
  findings.push_back(speed);
}

void examine_memory(Findings& findings) {
  const job::MachineMemory found = job::machine_memory();
  const double available = found.free_bytes();
  Finding memory{
      "memory", "memory", State::ok,
      cat(bytes_text(available), " available of ", bytes_text(found.total_bytes),
          found.group ? cat(", limited to ", bytes_text(found.group->limit_bytes), " by the control group")
                      : ""),
      ""};
  if (available < 256 * kMiB)
    memory.state = State::problem,
    memory.advice = "LibTorch alone needs about 200 MiB a rank: free some, or raise the limit";
  else if (available < kGiB)
    memory.state = State::note, memory.advice = "enough for models of a few million parameters only";
  findings.push_back(memory);
}

}  // namespace tessera::cli
