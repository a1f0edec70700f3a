// How does the launcher, which knows no programs, put into words what ranks do? By these.
#pragma once

#include <functional>

#include "tessera/launch/watch/telling.hpp"
#include "tessera/program/ir/types.hpp"

namespace tessera::job {

// `compile` is called when the first word is needed, once.
launch::Words words_of(std::function<program::Program()> compile);

}  // namespace tessera::job
