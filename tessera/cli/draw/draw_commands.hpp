// `tessera draw`: each prints what a person or (--json) a machine reads, and returns the exit code.
#pragma once

#include <string>

#include "tessera/cli/commands/commands.hpp"

namespace tessera::cli {

// Whichever kind of picture the options ask for.
int draw_command(const Options& options);

int draw_experts_command(const Options& options, const std::string& path);
int draw_layout_command(const Options& options);
int draw_memory_command(const Options& options, const std::string& path);

}  // namespace tessera::cli
