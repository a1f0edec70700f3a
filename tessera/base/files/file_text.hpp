// Reads a small file whole.
#pragma once

#include <filesystem>
#include <string>

namespace tessera {

// All of it, of a file in /proc too; empty when it is absent or can't be read.
std::string file_text(const std::filesystem::path& path);
// The first line without its end.
std::string first_line(const std::filesystem::path& path);

}  // namespace tessera
