// The command line of the binary.
#pragma once

#include "tessera/cli/commands/test_device.hpp"

namespace tessera::cli {

// Parses the command line and runs a subcommand; errors are printed and become exit codes.
// `device`: what `verify --device` knows, in the binary for developers.
int run(int argc, char** argv, const std::optional<TestDevice>& device = {});

}  // namespace tessera::cli
