// Describes what ranks do, for the launcher, which knows no programs.
#pragma once

#include <functional>

#include "tessera/launch/watch/failure_report.hpp"
#include "tessera/program/ir/types.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::job {

// `compile` is called when the first word is needed, once.
launch::RankDescriber describer_of(std::function<program::Program()> compile);

// Of replicas that make local steps, each of which runs that program.
launch::RankDescriber describer_of_replicas(const spec::Layout& layout,
                                            std::function<program::Program()> compile);

}  // namespace tessera::job
