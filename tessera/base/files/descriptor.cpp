#include "tessera/base/files/descriptor.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tessera/base/error.hpp"

namespace tessera {

void Descriptor::reset() {
  if (number_ >= 0) close(number_);
  number_ = -1;
}

std::pair<Descriptor, Descriptor> connected_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw UserError(cat("cannot connect two ranks: ", system_reason(),
                        ". Raise the limit of open files (ulimit -n), or start fewer ranks."));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

std::string system_reason() { return std::generic_category().message(errno); }

}  // namespace tessera
