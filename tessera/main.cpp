#include "tessera/cli/command_line.hpp"

int main(int argc, char** argv) { return tessera::cli::run(argc, argv); }
