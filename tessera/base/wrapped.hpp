// Text for a terminal of so many columns.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

// Lines of at most `width` columns, broken at spaces where there are any; what goes on stands below the last
// column that two spaces begin, so that a list of names and meanings stays one.
std::string wrapped(std::string_view text, std::size_t width);

}  // namespace tessera
