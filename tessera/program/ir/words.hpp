// Which letter stands for which op and cell? Shared by writer and parser of the text form.
#pragma once

#include <string_view>

namespace tessera::program {

inline constexpr std::string_view kWhatLetters = "FRBIWgrs><x+ofd";  // in the order of What
inline constexpr char kNoTapeLetter = 'N';                           // a forward that keeps no tape
inline constexpr std::string_view kCellLetters = "VGTKUWSZAN";       // in the order of CellKind

}  // namespace tessera::program
