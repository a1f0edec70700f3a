// Searches for the order in which gradients are reduced (layout.communication = auto).
#pragma once

#include <functional>
#include <string>

#include "tessera/program/ir/types.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

// A layout's program, and a step of it as simulated.
struct Candidate {
  spec::Layout layout;
  program::Program program;
  double seconds = 0;
};

// Returns the fastest of both orders as the keys have it. Where these leave it open, by priority also in
// slices, and then with a credit of some slices. What is less than a thousandth faster is not taken.
Candidate fastest_communication(const spec::Layout& asked,
                                const std::function<Candidate(const spec::Layout&)>& try_out);

// How that layout reduces gradients, for people.
std::string communication_words(const spec::Layout& layout);

}  // namespace tessera::plan
