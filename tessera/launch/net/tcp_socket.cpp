#include "tessera/launch/net/tcp_socket.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/listen_address.hpp"
#include "tessera/launch/net/poll_time.hpp"

namespace tessera::launch {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const TcpAddress& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
  if (error != 0)
    throw UserError(cat("cannot find the host '", address.host, "' of the store: ", gai_strerror(error),
                        ". Name the host of rank 0 as all hosts know it, or its address."));
  return Addresses(found, freeaddrinfo);
}

bool is_any(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr == htonl(INADDR_ANY);
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

bool is_connected_by(const Descriptor& socket, double deadline_seconds) {
  pollfd polled{socket.number(), POLLOUT, 0};
  if (poll(&polled, 1, poll_milliseconds(deadline_seconds)) <= 0) {
    errno = ETIMEDOUT;
    return false;
  }
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &size);
  errno = error;
  return error == 0;
}

}  // namespace

TcpAddress parse_address(const std::string& text, const std::string& where) {
  const auto found = parse_host_and_port(text);
  if (!found || found->port < 1)
    throw UserError(
        cat(where, " = '", text,
            "': wants host:port with a port from 1 to 65535, e.g. node1:29400 or [fd00::1]:29400"));
  return {found->host, cat(found->port)};
}

Descriptor listen_on(const TcpAddress& address) {
  const auto addresses = resolve(address);
  const addrinfo& first = *addresses;
  if (is_any(first.ai_addr))
    throw UserError(
        cat("the store cannot be at '", address.host,
            "', which is every interface. Name the address of rank 0's host that the others reach."));
  Descriptor socket(::socket(first.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (socket) setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (!socket || bind(socket.number(), first.ai_addr, first.ai_addrlen) != 0 ||
      listen(socket.number(), SOMAXCONN) != 0)
    throw UserError(cat("rank 0 cannot listen at ", address.host, ":", address.port, ": ", system_reason(),
                        ". Name an address of rank 0's host and a port that is free there."));
  return socket;
}

Descriptor connect_by(const TcpAddress& address, double deadline_seconds) {
  const auto addresses = resolve(address);
  int num_left = 0;
  for (const addrinfo* next = addresses.get(); next; next = next->ai_next) ++num_left;
  for (const addrinfo* next = addresses.get(); next; next = next->ai_next, --num_left) {
    // A host that swallows what is sent to one of its addresses may answer at another.
    const double now = now_seconds(), until_seconds = now + (deadline_seconds - now) / num_left;
    Descriptor socket(::socket(next->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) continue;
    const bool made = connect(socket.number(), next->ai_addr, next->ai_addrlen) == 0;
    if (!made && (errno != EINPROGRESS || !is_connected_by(socket, until_seconds))) continue;
    const int on = 1;
    setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return socket;
  }
  return Descriptor();
}

std::string own_host(const Descriptor& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  TESSERA_CHECK(getsockname(socket.number(), reinterpret_cast<sockaddr*>(&address), &size) == 0,
                system_reason());
  char host[NI_MAXHOST];
  TESSERA_CHECK(getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof(host), nullptr, 0,
                            NI_NUMERICHOST) == 0);
  return host;
}

bool is_loopback(const std::string& host) { return host == "::1" || host.starts_with("127."); }

}  // namespace tessera::launch
