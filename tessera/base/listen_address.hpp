// Addresses with a port, as people write them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera {

struct HostAndPort {
  std::string host;
  int port = 0;
};
// "node1:29400" or "[fd00::1]:29400"; nothing if there is no host, or no port from 0 to 65535.
std::optional<HostAndPort> parse_host_and_port(std::string_view text);

// Where one of our servers listens.
struct ListenAddress {
  std::string host = "127.0.0.1";  // an address of IPv4 or IPv6 in digits
  int port = 0;                    // 0: any that is free
  bool is_v6() const { return host.find(':') != std::string::npos; }
};

// "127.0.0.1:9464", "[::]:9464", "localhost:9464", or a port of 127.0.0.1 alone; nothing if it is none of
// these. Other names are not looked up.
std::optional<ListenAddress> parse_listen_address(std::string_view text);

// "127.0.0.1:9464" or "[::]:9464".
std::string to_text(const ListenAddress& address);

}  // namespace tessera
