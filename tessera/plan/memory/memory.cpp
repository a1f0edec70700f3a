#include "tessera/plan/memory/memory.hpp"

#include <algorithm>

#include "tessera/program/diagnose/op_description.hpp"

namespace tessera::plan {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kProductsWorkspace = 32 * kMiB;     // cuBLAS's, on the GPUs where it is largest
constexpr std::int64_t kCommunicatorBytes = 8 * 4 * kMiB;  // NCCL_BUFFSIZE in each of eight channels

program::Throughout throughout(const DevicePlan& device, std::size_t rank_class) {
  return {device.slots.empty() ? nullptr : &device.slots[rank_class], device.workspace_bytes};
}

RankMemory memory_of_class(const program::Program& program, const DevicePlan& device,
                           std::uint32_t rank_class) {
  const program::Sequence& sequence = program.classes[rank_class];
  const program::Tables& tables = program.tables;
  const program::Memory memory = program::replay_memory(sequence, tables, throughout(device, rank_class));
  RankMemory out;
  out.first_rank = std::ranges::find(tables.class_of_rank, rank_class) - tables.class_of_rank.begin();
  out.num_ranks = std::ranges::count(tables.class_of_rank, rank_class);
  out.peak_bytes = memory.peak_bytes;
  out.peak_op = memory.peak_op;
  out.moment = program::described(program, static_cast<int>(out.first_rank),
                                  static_cast<std::int32_t>(memory.peak_op));
  out.at_peak = program::by_category(memory.at_peak, memory.scratch_at_peak, memory.host_bytes);
  const std::int64_t slots = device.slots.empty() ? 0 : device.slots[rank_class].bytes;
  if (slots > 0) out.alive.push_back({"slots of what lanes hand to each other", slots});
  if (device.workspace_bytes > 0)
    out.alive.push_back({"workspace of libraries, assumed", device.workspace_bytes});
  out.alive.push_back({"what the op itself needs, and the tokens of the micro-batches",
                       memory.scratch_at_peak - slots - device.workspace_bytes});
  for (const program::HeldCell& held :
       program::cells_during(sequence, tables, memory.peak_op, throughout(device, rank_class)))
    out.alive.push_back({program::described(held.cell, tables), held.bytes});
  std::ranges::stable_sort(out.alive, std::greater(), &RankMemory::Alive::bytes);
  return out;
}

}  // namespace

DevicePlan device_plan(spec::Transport transport, const program::Program& program) {
  if (!spec::traits(transport).uses_gpus) return {};
  program::Program placed = program;
  std::int64_t num_communicators = 0;
  for (std::size_t set = 0; set < program.tables.axis_sets.size(); ++set)
    if (program.tables.size_of(static_cast<std::int16_t>(set)) > 1) ++num_communicators;
  return {program::place_in_slots(placed), kProductsWorkspace + num_communicators * kCommunicatorBytes};
}

std::vector<RankMemory> memory_of(const program::Program& program, const DevicePlan& device) {
  std::vector<RankMemory> out;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c)
    out.push_back(memory_of_class(program, device, c));
  return out;
}

std::int64_t peak_bytes(const program::Program& program, const DevicePlan& device) {
  std::int64_t most = 0;
  for (std::size_t c = 0; c < program.classes.size(); ++c)
    most = std::max(
        most, program::replay_memory(program.classes[c], program.tables, throughout(device, c)).peak_bytes);
  return most;
}

}  // namespace tessera::plan
