#include "tessera/base/shortened.hpp"

#include <algorithm>

#include "tessera/base/text.hpp"

namespace tessera {

std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  const auto begins_character = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
  };
  std::size_t head = most * 2 / 3, tail = text.size() - (most - head);
  while (head > 0 && !begins_character(head)) --head;
  while (tail < text.size() && !begins_character(tail)) ++tail;
  return cat(text.substr(0, head), " ... (", tail - head, " bytes left out) ... ", text.substr(tail));
}

std::string bounded_message(std::string_view text) {
  constexpr std::size_t kMostOfLine = 1000, kMost = 20000;
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (at > 0) out += '\n';
    if (line.size() <= kMostOfLine)
      out += line;
    else
      out += shortened(line, kMostOfLine);
    at = end + 1;
  }
  return shortened(out, kMost);
}

}  // namespace tessera
