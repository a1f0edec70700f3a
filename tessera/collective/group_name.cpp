#include "tessera/collective/group_name.hpp"

#include <cstdio>

#include "tessera/base/random.hpp"
#include "tessera/base/text.hpp"

namespace tessera::collective {

std::string group_name(const std::vector<int>& ranks) {
  std::string list;
  for (const int rank : ranks) list += cat(rank, ".");
  char hash[17];
  std::snprintf(hash, sizeof(hash), "%016llx", static_cast<unsigned long long>(stream_of(list)));
  return cat("group.", ranks.size(), ".", ranks.front(), ".", hash);
}

}  // namespace tessera::collective
