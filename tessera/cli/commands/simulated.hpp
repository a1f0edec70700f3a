// What is to be simulated or drawn: a schedule by itself or a run file, as a checked program with what its
// ops cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/cli/commands/commands.hpp"
#include "tessera/program/ir/types.hpp"
#include "tessera/simulate/costs.hpp"

namespace tessera::cli {

struct Simulated {
  std::string name;  // of the schedule
  spec::Layout layout;
  std::int64_t num_micro = 1;
  std::string note;  // what the schedule chose or does instead
  std::string costs_text;
  bool is_in_seconds = false;
  program::Program program;
  simulate::OpCosts costs;
  std::optional<spec::Run> run;  // a schedule by itself has none
};

// Throws UserError unless there is either a run file or a schedule, or when they can't be run.
Simulated simulated_of(const Options& options);

// The ops as text, after the lines of the run that they belong to (each begins with "#| "): a file that
// simulated_of reads back, edited or not. Not of a schedule by itself.
std::string program_file(const Simulated& simulated);

// "interleaved: 4 ranks x 2 virtual stages, 8 micro-batches".
std::string title_of(const Simulated& simulated);

}  // namespace tessera::cli
