// What the terminal and the environment allow: width, colours, Unicode.
#pragma once

#include "tessera/metrics/display/frame.hpp"

namespace tessera::metrics {

// Whether lines can be redrawn there: a terminal, and TERM is neither empty nor dumb.
bool is_live_terminal(int descriptor);

// Its size now; colours unless NO_COLOR is set, ASCII unless the locale is UTF-8.
Canvas canvas_of(int descriptor);

}  // namespace tessera::metrics
