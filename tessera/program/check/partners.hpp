// The ops of all classes, numbered through, and which of them happen together: the members of a group op, and
// a send with its receive. Checker and simulator walk a program by these.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/program/check/check.hpp"

namespace tessera::program {

struct Partners {
  static constexpr std::uint32_t kAlone = 0xffff'ffffu;

  std::vector<std::uint32_t> first;         // per class, and one more: the number of its op 0
  std::vector<std::uint32_t> meeting;       // per op; kAlone: it meets no op of another number
  std::vector<std::uint32_t> first_member;  // per meeting, and one more
  std::vector<std::uint32_t> members;       // ops; of a transfer the send, then the receive
  std::vector<bool> is_transfer;            // per meeting

  std::uint32_t num_ops() const { return first.back(); }
  std::uint32_t num_meetings() const { return static_cast<std::uint32_t>(is_transfer.size()); }
  std::span<const std::uint32_t> members_of(std::uint32_t met) const {
    return {members.data() + first_member[met], first_member[met + 1] - first_member[met]};
  }
};

// Ranks of a class meet ranks of the same classes (check_symmetry), so one stands for all. Says which ops
// have no partner, or a wrong one; those are left alone.
Partners find_partners(const Program& program, std::vector<Problem>& out);

}  // namespace tessera::program
