// Letters of the text form, shared by its writer and parser, besides those of ops (ops.def).
#pragma once

#include <string>
#include <string_view>

#include "tessera/program/ir/op_kind.hpp"

namespace tessera::program {

inline constexpr char kNoTapeLetter = 'N';                       // a forward that keeps no tape
inline constexpr std::string_view kCellLetters = "VGTKUWSZANH";  // in the order of CellKind

// Of the ops that compute, or of the others.
inline std::string letters(bool of_compute) {
  std::string out;
  for (const OpInfo& op : kOps)
    if (is_compute(op.kind) == of_compute) out += op.letter;
  return out;
}

}  // namespace tessera::program
