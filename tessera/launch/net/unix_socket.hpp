// Unix sockets between processes of one user; both sides look at who the other is.
#pragma once

#include <sys/types.h>

#include <string>

#include "tessera/base/files/descriptor.hpp"

namespace tessera::launch {

// A descriptor that this process was started with, by its number as text; `where` is the variable that names
// it. Not passed on to further programs. Throws UserError when it isn't open.
Descriptor inherited_descriptor(const std::string& number, const std::string& where);

// Both throw UserError when the path is too long. listen_at throws it also when the system refuses;
// connect_to then returns nothing, with errno set.
Descriptor listen_at(const std::string& path);
Descriptor connect_to(const std::string& path);

// The user at the other end of a connected Unix socket.
uid_t peer_user(const Descriptor& socket);

}  // namespace tessera::launch
