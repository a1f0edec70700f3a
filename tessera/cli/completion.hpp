// Writes the script by which a shell completes commands, options and keys of run files.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace tessera::cli {

// For `shell`, which is "bash" or "zsh".
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace tessera::cli
