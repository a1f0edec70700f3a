// The findings of `tessera doctor`: whether this machine can train, and how well.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::cli {

enum class State { ok, note, problem };  // problem: training can't start

struct Finding {
  std::string section, name;
  State state = State::ok;
  std::string value;   // what was found
  std::string advice;  // what to do about it; empty when all is well
  bool operator==(const Finding&) const = default;
};
using Findings = std::vector<Finding>;

// The parts of the examination. None takes long, but a host name is looked up for as long as the resolver
// tries.
void examine_versions(Findings& findings);
void examine_processor(Findings& findings);
void examine_memory(Findings& findings);
void examine_system(Findings& findings);
// Really makes groups of two ranks and sums over them. Adds the names of those that work to `usable`.
void examine_transports(Findings& findings, std::vector<std::string>& usable);

// What the text of /proc/cpuinfo says: instruction sets that matter here, cores without counting hyperthreads
// (0: not said).
std::vector<std::string> instruction_sets(std::string_view cpuinfo);
int physical_cores(std::string_view cpuinfo);

std::string doctor_text(const Findings& findings);

}  // namespace tessera::cli
