// The name by which the members of a group find each other.
#pragma once

#include <string>
#include <vector>

namespace tessera::collective {

// Its length doesn't grow with the list: it is written once per member.
std::string group_name(const std::vector<int>& ranks);

}  // namespace tessera::collective
