// Reads a trace as the drawer takes it.
#pragma once

#include <string>
#include <vector>

#include "tessera/draw/panels.hpp"

namespace tessera::cli {

struct TracedRun {
  std::vector<draw::Traced> ops;
  std::string program;  // its fingerprint (plan/identity.hpp); empty: the trace does not say
};

// Throws UserError when the file is no trace of `tessera train --trace`, naming what is missing.
TracedRun read_traced(const std::string& path);

}  // namespace tessera::cli
