// How does a process that torchrun, mpirun or srun started take its place in the job?
#pragma once

#include <functional>
#include <optional>

#include "tessera/launch/join.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::collective {
class Communicator;
}

namespace tessera::cli {

// Nothing for a process that stands alone, or that our own launcher started.
std::optional<launch::Membership> joined_membership();

// Calls `body` as this rank of the job, once all ranks have met.
void on_joined_rank(const spec::Run& run, const launch::Membership& membership,
                    const std::function<void(const collective::Communicator&)>& body);

}  // namespace tessera::cli
