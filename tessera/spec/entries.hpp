// All entries of a run file and of the files that it includes, which come first.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/spec/toml_file.hpp"

namespace tessera::spec {

// Paths of files that the run reads are found beside the file that names them, if they are there. Throws
// UserError when a file can't be read, is no TOML, includes itself, or is beyond the bounds of size and
// number.
std::vector<Entry> entries_of_file(const std::filesystem::path& path);

// Of a text that is kept in another file: it may include nothing, so that reading a checkpoint or a program
// opens no file that it names.
std::vector<Entry> entries_of_text(std::string_view text, const std::string& name);

}  // namespace tessera::spec
