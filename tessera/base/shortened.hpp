// Messages stay readable, whatever the input that they quote.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera {

// The text without its middle if it has more than `most` bytes, saying how many are left out.
std::string shortened(std::string_view text, std::size_t most);
// A message with every line and the whole of it shortened.
std::string bounded_message(std::string_view text);

}  // namespace tessera
