#include "tessera/launch/store/open_files.hpp"

#include <sys/resource.h>

#include "tessera/base/error.hpp"
#include "tessera/launch/net/unix_socket.hpp"

namespace tessera::launch {

void reserve_open_files(int num_ranks, std::size_t needed, const std::string& where) {
  rlimit limit;
  TESSERA_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0, system_reason());
  if (limit.rlim_cur >= needed) return;
  if (limit.rlim_max < needed)
    throw UserError(cat(num_ranks, " ranks need ", needed, " open files in ", where,
                        ", but the system allows ", limit.rlim_max, ". Raise the limit (ulimit -Hn ", needed,
                        ") or start fewer ranks."));
  limit.rlim_cur = needed;
  TESSERA_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, system_reason());
}

std::size_t most_open_files() {
  constexpr std::size_t kUnlimited = 1 << 20;
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max == RLIM_INFINITY) return kUnlimited;
  return limit.rlim_max;
}

void raise_open_files() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= most_open_files()) return;
  limit.rlim_cur = most_open_files();
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace tessera::launch
