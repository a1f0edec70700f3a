// The order in which each rank of a pipeline computes: virtual stages and micro-batches as tasks, before
// there is a program. Schedules make it, transfers are added to it, and users write it by hand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/program/ir/types.hpp"

namespace tessera::program {

// forward, backward (whole), backward_input or backward_weight of one virtual stage for one micro-batch.
struct Task {
  OpKind what = OpKind::forward;
  std::uint32_t stage = 0;
  std::int32_t micro = 0;
  auto operator<=>(const Task&) const = default;
};

// 2F0: stage, letter and micro-batch, as in the text form of programs and in PyTorch's files.
std::string word(const Task& task);

// Stage s feeds stage s + 1; neighbours may lie on one rank (the turn of a V).
struct Order {
  std::int32_t num_micro = 1;
  std::vector<std::uint32_t> rank_of_stage;  // position along the pipeline axis
  std::vector<std::vector<Task>> ranks;      // by position
  bool operator==(const Order&) const = default;
};

// Seconds (or any unit) of one micro-batch on one virtual stage. A whole backward takes input + weight.
struct StageCost {
  double forward = 1, input = 1, weight = 1;
  bool operator==(const StageCost&) const = default;
};

struct Costs {
  std::vector<StageCost> stages;
  double transfer = 0;  // of a value or a gradient, from one rank to another
  bool operator==(const Costs&) const = default;
};

// The forwards alone, each micro-batch as early as it can come to a stage.
Order forwards_of(const Order& order);

// Equal stages: a virtual stage costs 1/num_virtual of what its rank does for a micro-batch.
Costs even_costs(std::uint32_t num_ranks, std::uint32_t num_virtual, const StageCost& of_rank,
                 double transfer = 0);

// Seconds of a task.
double seconds_of(const Task& task, const Costs& costs);

// Per rank: how many stage activations are held at most. One is held from its forward to its backward, or to
// its weight half.
std::vector<std::int64_t> peak_activations(const Order& order);

}  // namespace tessera::program
