#include "tessera/base/listen_address.hpp"

#include <arpa/inet.h>

#include "tessera/base/text.hpp"

namespace tessera {

std::optional<ListenAddress> parse_listen_address(std::string_view text) {
  ListenAddress out;
  const auto colon = text.rfind(':');
  std::string_view port = text;
  if (colon != std::string_view::npos) {
    std::string_view host = text.substr(0, colon);
    port = text.substr(colon + 1);
    const bool in_brackets = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
    if (in_brackets) host = host.substr(1, host.size() - 2);
    out.host = host == "localhost" ? "127.0.0.1" : std::string(host);
    if (out.is_v6() != in_brackets) return std::nullopt;
    in6_addr place;  // large enough for both
    if (inet_pton(out.is_v6() ? AF_INET6 : AF_INET, out.host.c_str(), &place) != 1) return std::nullopt;
  }
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  out.port = std::stoi(std::string(port));
  if (out.port > 65535) return std::nullopt;
  return out;
}

std::string to_text(const ListenAddress& address) {
  return address.is_v6() ? cat("[", address.host, "]:", address.port) : cat(address.host, ":", address.port);
}

}  // namespace tessera
