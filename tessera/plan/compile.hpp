// What does a run execute? The checked program of a layout.
#pragma once

#include "tessera/program/types.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

// Describes, generates and checks; throws Bug if the checker finds anything.
program::Program compile(const spec::Run& run);

}  // namespace tessera::plan
