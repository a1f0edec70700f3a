// When are two layouts the same? If their programs are.
#pragma once

#include <string>

#include "tessera/program/types.hpp"

namespace tessera::plan {

// Equal for programs of equal ops on equal ranks, whose parameters lie alike, whatever their axes are called.
std::string identity(const program::Program& program);

}  // namespace tessera::plan
