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

// Whether a file on the command line is meant as a trace.
inline bool is_trace(const std::string& file) { return file.ends_with(".json"); }

// Throws UserError when the file is no trace of `tessera train --trace`, naming what is missing.
TracedRun read_traced(const std::string& path);

}  // namespace tessera::cli
