// Do the values of a run go together, and is all of it implemented? Asked before a process starts.
#pragma once

#include <string>
#include <vector>

#include "tessera/spec/spec.hpp"

namespace tessera::spec {

struct Problem {
  std::string key;   // "layout.pp": what to change
  std::string text;  // the whole sentence, key and value included
  bool operator==(const Problem&) const = default;
};

// Everything that keeps this run from training; empty when it can start.
std::vector<Problem> problems(const Run& run);

// Throws one UserError that lists all problems.
void validate(const Run& run);

}  // namespace tessera::spec
