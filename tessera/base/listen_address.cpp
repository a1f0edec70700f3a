#include "tessera/base/listen_address.hpp"

#include <arpa/inet.h>

#include "tessera/base/text.hpp"

namespace tessera {

std::optional<HostAndPort> parse_host_and_port(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string port(text.substr(colon + 1));
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string_view::npos)
    return std::nullopt;  // a bare IPv6 address: which part is the port?
  const bool is_number =
      !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  if (host.empty() || !is_number || std::stoi(port) > 65535) return std::nullopt;
  return HostAndPort{std::string(host), std::stoi(port)};
}

std::optional<ListenAddress> parse_listen_address(std::string_view text) {
  const bool is_port = text.find(':') == std::string_view::npos;
  auto found = parse_host_and_port(is_port ? cat("127.0.0.1:", text) : std::string(text));
  if (!found) return std::nullopt;
  if (found->host == "localhost") found->host = "127.0.0.1";
  ListenAddress out{.host = found->host, .port = found->port};
  if (out.is_v6() != text.starts_with('[')) return std::nullopt;
  in6_addr place;  // large enough for both
  if (inet_pton(out.is_v6() ? AF_INET6 : AF_INET, out.host.c_str(), &place) != 1) return std::nullopt;
  return out;
}

std::string to_text(const ListenAddress& address) {
  return address.is_v6() ? cat("[", address.host, "]:", address.port) : cat(address.host, ":", address.port);
}

}  // namespace tessera
