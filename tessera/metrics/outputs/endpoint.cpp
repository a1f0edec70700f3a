#include "tessera/metrics/outputs/endpoint.hpp"

#include <arpa/inet.h>
#include <microhttpd.h>

#include <cstring>
#include <string_view>

#include "tessera/base/error.hpp"
#include "tessera/metrics/outputs/prometheus_page.hpp"

namespace tessera::metrics {

namespace {

MHD_Result respond(MHD_Connection* connection, unsigned status, std::string_view text) {
  // The copy is the server's: the page may change before all of it is sent.
  MHD_Response* response =
      MHD_create_response_from_buffer(text.size(), const_cast<char*>(text.data()), MHD_RESPMEM_MUST_COPY);
  if (!response) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8");
  if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, MHD_HTTP_METHOD_GET);
  const MHD_Result queued = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return queued;
}

// Called by the server's thread as soon as the headers of a request are read.
MHD_Result answer(void* page, MHD_Connection* connection, const char* path, const char* method, const char*,
                  const char*, std::size_t*, void**) try {
  if (std::string_view(method) != MHD_HTTP_METHOD_GET)
    return respond(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET is allowed\n");
  if (std::string_view(path) != "/metrics")
    return respond(connection, MHD_HTTP_NOT_FOUND, "only /metrics is here\n");
  return respond(connection, MHD_HTTP_OK, static_cast<const PrometheusPage*>(page)->text());
} catch (const std::bad_alloc&) {
  return MHD_NO;
}

// Paths are compared as they were sent: "/metrics%00" is another one.
std::size_t leave_escaped(void*, MHD_Connection*, char* text) { return std::strlen(text); }

// The server's own messages are of no use: a request that it refuses gets its answer.
void discard(void*, const char*, va_list) {}

struct StopServer {
  void operator()(MHD_Daemon* server) const { MHD_stop_daemon(server); }
};
using Server = std::unique_ptr<MHD_Daemon, StopServer>;

// One thread serves all connections. Each may hold 16 KiB, and is closed when it has been silent for a
// second.
Server listen(const ListenAddress& where, PrometheusPage& page) {
  const auto port = static_cast<std::uint16_t>(where.port);
  sockaddr_in v4{.sin_family = AF_INET, .sin_port = htons(port)};
  sockaddr_in6 v6{.sin6_family = AF_INET6, .sin6_port = htons(port)};
  inet_pton(AF_INET, where.host.c_str(), &v4.sin_addr);
  inet_pton(AF_INET6, where.host.c_str(), &v6.sin6_addr);
  const void* address = where.is_v6() ? static_cast<const void*>(&v6) : &v4;
  const unsigned flags =
      MHD_USE_AUTO_INTERNAL_THREAD | MHD_USE_ERROR_LOG | (where.is_v6() ? unsigned{MHD_USE_IPv6} : 0U);
  constexpr unsigned kConnections = 64, kSilentSeconds = 1;
  constexpr std::size_t kBytes = 16 << 10;
  Server server(MHD_start_daemon(flags, port, nullptr, nullptr, answer, &page, MHD_OPTION_EXTERNAL_LOGGER,
                                 discard, nullptr, MHD_OPTION_SOCK_ADDR, address, MHD_OPTION_CONNECTION_LIMIT,
                                 kConnections, MHD_OPTION_CONNECTION_TIMEOUT, kSilentSeconds,
                                 MHD_OPTION_CONNECTION_MEMORY_LIMIT, kBytes, MHD_OPTION_UNESCAPE_CALLBACK,
                                 leave_escaped, nullptr, MHD_OPTION_END));
  if (!server)
    throw UserError(cat("metrics.listen = ", to_text(where),
                        ": cannot listen there: the port is taken or not allowed, or this host has no such "
                        "address. Name another one, or port 0 for any that is free."));
  return server;
}

}  // namespace

struct Endpoint::Parts {
  explicit Parts(const ListenAddress& where) : server(listen(where, page)) {}

  PrometheusPage page;
  Server server;  // last: its thread reads the page
};

Endpoint::Endpoint(const ListenAddress& address) : parts_(std::make_unique<Parts>(address)) {}
Endpoint::~Endpoint() = default;

int Endpoint::port() const {
  return MHD_get_daemon_info(parts_->server.get(), MHD_DAEMON_INFO_BIND_PORT)->port;
}

void Endpoint::update(const StepFacts& facts) { parts_->page.update(facts); }

}  // namespace tessera::metrics
