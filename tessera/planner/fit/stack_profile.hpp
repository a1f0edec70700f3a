// A stack profile: the measured runs that a software stack on a device was fitted to, in a versioned JSON
// file.
#pragma once

#include <string>
#include <vector>

#include "tessera/planner/fit/fit.hpp"

namespace tessera::planner {

// The runs are kept as lines of a table, so that a reader can check and extend them; the constants follow
// from these, and stand in the file for people.
struct StackProfile {
  std::string stack;
  std::string columns;               // the first line of their table
  std::vector<std::string> records;  // a line each
  bool operator==(const StackProfile&) const = default;
};

std::string to_json(const StackProfile& profile);
// Throws UserError for what is no profile, or one of another version.
StackProfile parse_profile(std::string_view json, const std::string& name);

Fit fit_of(const StackProfile& profile);

}  // namespace tessera::planner
