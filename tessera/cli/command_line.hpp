// The command line of the binary.
#pragma once

namespace tessera::cli {

// Parses the command line and runs a subcommand; errors are printed and become exit codes.
int run(int argc, char** argv);

}  // namespace tessera::cli
