// Compiles a layout to its checked program.
#pragma once

#include <string>

#include "tessera/plan/stages/cuts.hpp"
#include "tessera/plan/stages/staging.hpp"
#include "tessera/program/ir/types.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

// Describes, deals, orders, generates and checks; throws Bug if the checker finds anything. `note` is told
// what the schedule had to do otherwise than asked for, if anything.
program::Program compile(const spec::Run& run, std::string* note = nullptr);

// The program of these stages with blocks cut so, not checked.
program::Program compile_cut(const spec::Run& run, const Blueprint& model, const Staged& staged,
                             const Cuts& cuts);

// The stages of the run's model.
Staged stage(const spec::Run& run);

}  // namespace tessera::plan
