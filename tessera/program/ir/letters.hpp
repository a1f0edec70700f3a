// The letters that stand for ops and cells in the text form, shared by its writer and parser.
#pragma once

#include <string_view>

namespace tessera::program {

inline constexpr std::string_view kOpLetters = "FRBIWgrs><x+ofd";  // in the order of OpKind
inline constexpr char kNoTapeLetter = 'N';                         // a forward that keeps no tape
inline constexpr std::string_view kCellLetters = "VGTKUWSZAN";     // in the order of CellKind

}  // namespace tessera::program
