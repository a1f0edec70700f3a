// Predicts what each rank of a run holds, and when most, from shapes alone: no tensor exists yet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/program/memory/memory.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

// Of ranks that are equal by symmetry.
struct RankMemory {
  std::int64_t first_rank = 0, num_ranks = 1;
  std::int64_t peak_bytes = 0;
  BytesHeld at_peak;  // of the peak; host: the most that lies outside at a time
  std::uint32_t peak_op = 0;
  std::string moment;  // that op in words
  struct Alive {
    std::string what;  // "tape of block.3, micro-batch 1"
    std::int64_t bytes = 0;
    bool operator==(const Alive&) const = default;
  };
  std::vector<Alive> alive;  // at the peak, largest first
  bool operator==(const RankMemory&) const = default;
};

// What an accelerator's memory holds throughout a step; nothing on CPUs.
struct DevicePlan {
  std::vector<program::Slots> slots;  // by class of ranks
  std::int64_t workspace_bytes = 0;   // of libraries, on every rank
};

// By the run's transport. The workspace is assumed, from what the libraries' documentation says: see
// docs/memory.md.
DevicePlan device_plan(const spec::Run& run, const program::Program& program);

// A class of ranks after the other.
std::vector<RankMemory> memory_of(const program::Program& program, const DevicePlan& device = {});

// Of the rank that holds most.
std::int64_t peak_bytes(const program::Program& program, const DevicePlan& device = {});

// A change to the run file that brings every rank below a limit.
struct Fix {
  std::vector<std::string> changes;  // "layout.zero=3"
  std::int64_t peak_bytes = 0;
  double slowdown = 1;  // its simulated step over that of the run as it stands
  bool operator==(const Fix&) const = default;
};

// Tries what usually helps by compiling it, one change at a time, and two together where no single one is
// enough: the fastest first by simulated step. `program` is the run's own. Empty: nothing that was tried
// fits.
std::vector<Fix> fixes(const spec::Run& run, const program::Program& program, std::int64_t limit_bytes);

// Throws UserError with the reason and the fixes if a rank of the program would hold more than
// layout.memory_limit_mib.
void hold_to_memory_limit(const spec::Run& run, const program::Program& program);

}  // namespace tessera::plan
