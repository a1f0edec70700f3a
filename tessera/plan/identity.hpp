// Tells whether two layouts are the same: if their programs are.
#pragma once

#include <string>

#include "tessera/program/ir/types.hpp"

namespace tessera::plan {

// Equal for programs of equal ops on equal ranks, whose parameters lie alike, whatever their axes are called.
std::string identity(const program::Program& program);

// A few digits of the program and of the sizes of its values: equal for runs that differ in data, rates or
// steps alone.
std::string fingerprint(const program::Program& program);

}  // namespace tessera::plan
