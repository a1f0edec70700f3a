// Compares a text with a reviewed file. For tests.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

#include "tessera/base/files/file_text.hpp"

namespace tessera {

// The text of the golden file (path from the top of the sources). With UPDATE_GOLDEN=1 in the environment the
// file is first rewritten from `actual`, for review in the diff.
inline std::string golden(const std::string& path, const std::string& actual) {
  if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path) << actual;
  return file_text(path);
}

}  // namespace tessera
