// How does the launcher, which knows no programs, put into words what ranks do? By these.
#pragma once

#include <functional>

#include "tessera/launch/telling.hpp"
#include "tessera/program/types.hpp"

namespace tessera::cli {

// `compile` is called when the first word is needed, once.
launch::Words words_of(std::function<program::Program()> compile);

}  // namespace tessera::cli
