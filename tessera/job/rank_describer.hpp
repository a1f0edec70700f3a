// Describes what ranks do, for the launcher, which knows no programs.
#pragma once

#include <functional>

#include "tessera/launch/watch/failure_report.hpp"
#include "tessera/program/ir/types.hpp"

namespace tessera::job {

// `compile` is called when the first word is needed, once.
launch::RankDescriber describer_of(std::function<program::Program()> compile);

}  // namespace tessera::job
