// The run file that a run was made by, kept beside what it made.
#pragma once

#include <string>

#include "tessera/spec/spec.hpp"

namespace tessera::train {

inline constexpr char kRunFileName[] = "run.toml";

// Writes the whole resolved run file into the folder of the run, in the place of an older one. Throws
// UserError when the disk refuses.
void keep_run_file(const spec::Run& run, const std::string& folder);

}  // namespace tessera::train
