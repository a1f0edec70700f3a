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

}  // namespace tessera::launch
