// What does a trace say of each op? Its events as the drawer takes them.
#pragma once

#include <string>
#include <vector>

#include "tessera/draw/panels.hpp"

namespace tessera::cli {

// Throws UserError when the file is no trace of `tessera train --trace`, naming what is missing.
std::vector<draw::Traced> read_traced(const std::string& path);

}  // namespace tessera::cli
