// How does a run file become a Run, and back? Strict reading: each mistake is named with file, line and key.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "tessera/spec/spec.hpp"

namespace tessera::spec {

// Reads a run file and what it includes, then applies overrides of the form section.key=value. Throws one
// UserError that lists all mistakes. Whether the values go together is validate()'s question.
Run load(const std::filesystem::path& path, std::span<const std::string> overrides = {});

// The same from a text; `name` stands for the file in messages, and includes are relative to its folder.
Run parse(std::string_view text, const std::string& name, std::span<const std::string> overrides = {});

// The whole run as a file, defaults written out: parse(to_text(run)) == run.
std::string to_text(const Run& run);

}  // namespace tessera::spec
