#include "tessera/launch/net/unix_socket.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "tessera/base/error.hpp"

namespace tessera::launch {
namespace {

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    throw UserError(cat("the socket path ", path, " is longer than the system's ",
                        sizeof(address.sun_path) - 1, " bytes. Set TMPDIR to a shorter folder."));
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

}  // namespace

Descriptor listen_at(const std::string& path) {
  const sockaddr_un address = address_of(path);
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket || bind(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(socket.number(), SOMAXCONN) != 0)
    throw UserError(cat("cannot listen at ", path, ": ", system_reason()));
  return socket;
}

Descriptor inherited_descriptor(const std::string& text, const std::string& where) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < 0 || fcntl(number, F_GETFD) < 0)
    throw UserError(cat(where, " names the descriptor '", text, "', which is not open in this process"));
  fcntl(number, F_SETFD, FD_CLOEXEC);
  return Descriptor(number);
}

Descriptor connect_to(const std::string& path) {
  const sockaddr_un address = address_of(path);
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket || connect(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return Descriptor();
  return socket;
}

uid_t peer_user(const Descriptor& socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  TESSERA_CHECK(getsockopt(socket.number(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0,
                system_reason());
  return credentials.uid;
}

}  // namespace tessera::launch
