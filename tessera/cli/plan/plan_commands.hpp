// The planner's commands: `tessera plan RUN`, `plan what-if`, `plan evaluate` and `plan calibrate`.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "tessera/job/ranks.hpp"

namespace CLI {
class App;
}

namespace tessera::cli {

// The run file, or the table of runs, is the job's `file`.
struct PlanOptions : job::JobOptions {
  int (*command)(const PlanOptions&) = nullptr;  // which one was asked for
  bool json = false;
  int machine = 0;             // ranks of this machine, instead of a cluster; 0: none
  std::string cluster, stack;  // a file or NAME:DEVICES; a profile, or the stack to fit
  double tokens = 0;
  std::size_t answers = 8;
  std::string objective = "time";
  double within_days = 0;
  bool explain = false, as_it_is = false;
  std::string write, html;
  std::vector<std::string> with;  // what-if: what is changed
  // evaluate, calibrate
  std::size_t calibrate = 10;
  std::uint64_t seed = 1;
  bool rows = false, choice = false;
  std::string out;
};

int plan_command(const PlanOptions& options);
int what_if_command(const PlanOptions& options);
int plan_evaluate_command(const PlanOptions& options);
int plan_calibrate_command(const PlanOptions& options);
int bench_profile_command(const PlanOptions& options);

// Adds all to the command `plan`; the one that is parsed is then options.command.
void add_plan_commands(CLI::App& plan, PlanOptions& options);
void add_bench_profile(CLI::App& bench, PlanOptions& options);

}  // namespace tessera::cli
