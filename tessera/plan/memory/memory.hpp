// Predicts what each rank of a run holds, and when most, from shapes alone: no tensor exists yet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/program/memory/memory.hpp"
#include "tessera/spec/transport.hpp"

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

// On devices of that transport. The workspace is assumed, from what the libraries' documentation says: see
// docs/memory.md.
DevicePlan device_plan(spec::Transport transport, const program::Program& program);

// A class of ranks after the other.
std::vector<RankMemory> memory_of(const program::Program& program, const DevicePlan& device = {});

// Of the rank that holds most.
std::int64_t peak_bytes(const program::Program& program, const DevicePlan& device = {});

}  // namespace tessera::plan
