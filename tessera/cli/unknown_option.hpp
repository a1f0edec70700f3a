#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace tessera::cli {

// The message for an option that the named command does not have, with what was probably meant: one of its
// own, or a key of the run file. Empty if all are known.
std::string unknown_option(const CLI::App& app, const std::vector<std::string>& argv);

}  // namespace tessera::cli
