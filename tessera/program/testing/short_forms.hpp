// Short forms of what tests of orders and programs write often.
#pragma once

#include <string>

#include "tessera/program/ir/text.hpp"
#include "tessera/program/schedule/order.hpp"

namespace tessera::program {

inline Task f(std::uint32_t stage, std::int32_t micro) { return {OpKind::forward, stage, micro}; }
inline Task b(std::uint32_t stage, std::int32_t micro) { return {OpKind::backward, stage, micro}; }
inline Task i(std::uint32_t stage, std::int32_t micro) { return {OpKind::backward_input, stage, micro}; }
inline Task w(std::uint32_t stage, std::int32_t micro) { return {OpKind::backward_weight, stage, micro}; }

// Stages of equal cost.
inline Pipeline even_pipeline(std::uint32_t num_ranks, std::uint32_t num_virtual, std::int32_t num_micro,
                              const StageCost& cost = {1, 1, 1}, double transfer = 0) {
  return {num_ranks, num_virtual, num_micro, even_costs(num_ranks, num_virtual, cost, transfer)};
}

// The ops of the first class of ranks.
inline std::string order(const Program& program) { return words(program.classes[0], program.tables); }

}  // namespace tessera::program
