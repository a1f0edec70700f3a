// TCP sockets and addresses of the form host:port.
#pragma once

#include <string>

#include "tessera/launch/net/unix_socket.hpp"

namespace tessera::launch {

struct TcpAddress {
  std::string host;
  std::string port;
  bool operator==(const TcpAddress&) const = default;
};

// "host:port" or "[host]:port"; `where` names it in the UserError that is thrown when it is neither.
TcpAddress parse_address(const std::string& text, const std::string& where);

// On this address only. Throws UserError when the host is unknown, not of this machine, or stands for all
// interfaces.
Descriptor listen_on(const TcpAddress& address);
// To the first address of the host that answers; all share the time until the deadline. Nothing when none
// does, with errno set; throws UserError when the host is unknown.
Descriptor connect_by(const TcpAddress& address, double deadline_seconds);

// The host part of a socket's own address, as numbers.
std::string own_host(const Descriptor& socket);
// Of a host as numbers: is it reached from this machine only?
bool is_loopback(const std::string& host);

}  // namespace tessera::launch
