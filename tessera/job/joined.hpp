// Runs a rank of a job that torchrun, mpirun or srun started.
#pragma once

#include <functional>
#include <optional>

#include "tessera/job/rank.hpp"
#include "tessera/launch/store/join.hpp"
#include "tessera/launch/watch/failure_report.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::job {

// Nothing for a process that stands alone, or that our own launcher started.
std::optional<launch::Membership> joined_membership(launch::Joins joins = launch::Joins::known_starters);

// Throws UserError if this process was started as one of several that it cannot find: each would train alone
// and write to the same folder. With --procs the user asks for a job of its own, so nothing is checked.
void expect_not_one_of_several(int procs);

// Calls `body` as this rank of the job, once all ranks have met. Returns the exit code; what went wrong is
// told by rank 0, or by this rank when rank 0 is gone.
int on_joined_rank(const spec::Run& run, const launch::Membership& membership,
                   const std::function<void(const Rank&)>& body, launch::RankDescriber describer,
                   Stops stops);

}  // namespace tessera::job
