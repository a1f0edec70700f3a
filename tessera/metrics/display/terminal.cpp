#include "tessera/metrics/display/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace tessera::metrics {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The first of the three that is set decides, as in the C library.
bool is_utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string value = environment(name);
    if (value.empty()) continue;
    std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::tolower(c); });
    return value.find("utf-8") != value.npos || value.find("utf8") != value.npos;
  }
  return false;
}

}  // namespace

bool is_live_terminal(int descriptor) {
  const std::string kind = environment("TERM");
  return isatty(descriptor) != 0 && !kind.empty() && kind != "dumb";
}

Canvas canvas_of(int descriptor) {
  Canvas canvas{.colours = environment("NO_COLOR").empty(), .unicode = is_utf8_locale()};
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0)
    canvas.width = size.ws_col, canvas.height = size.ws_row;
  return canvas;
}

}  // namespace tessera::metrics
