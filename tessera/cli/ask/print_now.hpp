// Text that somebody waits for.
#pragma once

#include <cstdio>
#include <string>

namespace tessera::cli {

// On standard output, without waiting for the end of a line.
inline void print_now(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace tessera::cli
