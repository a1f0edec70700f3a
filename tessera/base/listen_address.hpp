// The address that one of our servers listens on, as people write it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera {

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
