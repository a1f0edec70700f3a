// Says, before a process starts, whether the values of a run go together and all of it is implemented.
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

// The transports that need no special build.
std::vector<Transport> transports_of_every_build();

// What the program that will train was built with.
struct Build {
  std::vector<Transport> transports = transports_of_every_build();
};
// One that has everything: for what is only planned here.
Build any_build();

// Everything that keeps this run from training; empty when it can start.
std::vector<Problem> problems(const Run& run, const Build& build = {});

// Throws one UserError that lists all problems.
void validate(const Run& run, const Build& build = {});

}  // namespace tessera::spec
