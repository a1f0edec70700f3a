#include "tessera/base/file_text.hpp"

#include <fstream>
#include <sstream>

namespace tessera {

std::string file_text(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace tessera
