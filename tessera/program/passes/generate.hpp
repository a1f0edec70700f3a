// Makes the ops of a step from tables and a compute order: gathers, transfers between ranks, reductions,
// numbers and steps around it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "tessera/program/ir/types.hpp"
#include "tessera/program/passes/offload.hpp"
#include "tessera/program/passes/priority.hpp"
#include "tessera/program/passes/residency.hpp"
#include "tessera/program/schedule/order.hpp"

namespace tessera::program {

// How an order's virtual stages stand for the tables' segments, and what its tasks are expected to cost:
// transfers are put where they would then happen.
struct Staging {
  std::vector<std::uint32_t> first_segment;  // per stage, and the number of segments at the end
  Costs costs;
};

struct GenerateOptions {
  Residency residency;
  Offload offload;
  // A forward and a backward of two micro-batches that follow each other take turns, segment by segment, so
  // that the exchanges of the one run beside the computation of the other.
  bool take_turns = false;
  // Servers serve one worker at a time: see Note [Servers] in servers.hpp.
  bool take_server_turns = false;
  // Reductions come in the order in which the next step needs them; nothing: as they come.
  std::optional<Priority> priority;
  // How many values and gradients a rank may receive before it needs them.
  std::uint32_t receives_ahead = std::numeric_limits<std::uint32_t>::max();
};

// The program of an order, a class per position on the stage axis (without one: a single class), and as many
// again of servers, if there are any. Tokens are
// summed first; a value or gradient that crosses to another rank is sent once made and received ahead; then
// numbers and steps, and the passes of `options`. An order of forwards alone evaluates: no tapes, no norm, no
// steps; values end with their last reader. Waits are filled. Throws UserError for an order that gets stuck.
Program generate(const Tables& tables, const Order& order, const Staging& staging,
                 const GenerateOptions& options = {});

// One micro-batch after the other, segment by segment, all on each rank; split: input and weight halves
// instead of whole backwards.
Program data_parallel(const Tables& tables, const GenerateOptions& options = {}, bool split_backward = false);

}  // namespace tessera::program
