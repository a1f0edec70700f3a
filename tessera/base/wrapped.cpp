#include "tessera/base/wrapped.hpp"

#include <algorithm>

namespace tessera {

std::string wrapped(std::string_view text, std::size_t width) {
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line(text.substr(begin, end - begin));
    const auto column = line.substr(0, width / 2).rfind("  ");
    const std::string indent(column == std::string::npos ? 0 : column + 2, ' ');
    while (line.size() > width) {
      const auto at = line.rfind(' ', width);
      if (at == std::string::npos || at < indent.size() || line.find_first_not_of(' ') >= at) break;
      out += line.substr(0, at) + "\n";
      line = indent + line.substr(at + 1);
    }
    out += line + (end < text.size() ? "\n" : "");
    begin = end + 1;
  }
  return out;
}

}  // namespace tessera
