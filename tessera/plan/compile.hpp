// Compiles a layout to its checked program.
#pragma once

#include <string>

#include "tessera/plan/model/step_request.hpp"
#include "tessera/plan/stages/cuts.hpp"
#include "tessera/plan/stages/staging.hpp"
#include "tessera/program/ir/types.hpp"
#include "tessera/program/memory/slots.hpp"

namespace tessera::plan {

// Describes, deals, orders, generates and checks; throws Bug if the checker finds anything. `note` is told
// what the schedule had to do otherwise than asked for, and what was chosen, if anything.
program::Program compile(const StepRequest& request, std::string* note = nullptr);
// The same without the check, to compare programs or to price them; not to be run.
program::Program compile_unchecked(const StepRequest& request, std::string* note = nullptr);

// What evaluates instead of training, by class of ranks, for the tables of the compiled program: forwards
// alone, with the newest weights whatever a step computes with. Checked as that one is.
std::vector<program::Sequence> compile_evaluation(const StepRequest& request, const program::Tables& tables);

// Places the program's cells in memory, for an accelerator, and checks the program again with the waits that
// this takes.
std::vector<program::Slots> place_in_slots(program::Program& program);

// The program of these stages with blocks cut so, not checked. Not for communication = auto.
program::Program compile_cut(const StepRequest& request, const Staged& staged, const Cuts& cuts);

}  // namespace tessera::plan
