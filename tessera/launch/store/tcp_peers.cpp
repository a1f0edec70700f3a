#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <optional>
#include <thread>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/process/quiet_thread.hpp"
#include "tessera/launch/net/handshake.hpp"
#include "tessera/launch/net/poll_time.hpp"
#include "tessera/launch/net/tcp_socket.hpp"
#include "tessera/launch/store/key_server.hpp"
#include "tessera/launch/store/peers.hpp"

namespace tessera::launch {
namespace {

constexpr int kVisitorsPerPoll = 16;
constexpr auto kPause = std::chrono::milliseconds(50);

// How the other rank reaches the listener of a connection, and what it has to know there.
struct Endpoint {
  TcpAddress address;
  Digest secret;
};

std::string to_text(const Endpoint& endpoint) {
  return cat(endpoint.address.host, " ", endpoint.address.port, " ", to_hex(endpoint.secret));
}

Endpoint parse_endpoint(const std::string& text) {
  const auto first = text.find(' '), second = text.find(' ', first + 1);
  if (first == text.npos || second == text.npos)
    throw PeerLost("a rank left a malformed address in the store");
  return {{text.substr(0, first), text.substr(first + 1, second - first - 1)},
          digest_of_hex(std::string_view(text).substr(second + 1))};
}

std::string own_port(const Descriptor& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  TESSERA_CHECK(getsockname(socket.number(), reinterpret_cast<sockaddr*>(&address), &size) == 0,
                system_reason());
  const auto port = address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                                  : reinterpret_cast<const sockaddr_in&>(address).sin_port;
  return cat(ntohs(port));
}

// The listening end: accepts whoever comes, keeps those that prove to be the ranks it waits for.
class PeerListener {
 public:
  PeerListener(const std::string& host, std::vector<PeerRequest> awaited)
      : listening_(listen_on({host, "0"})),
        endpoint_{{host, own_port(listening_)}, fresh_number()},
        requests_(std::move(awaited)),
        accepted_(requests_.size()),
        num_awaited_(requests_.size()) {
    for (std::size_t i = 0; i < requests_.size(); ++i)
      places_[hidden_name(endpoint_.secret, requests_[i].name)] = i;
  }

  const Endpoint& endpoint() const { return endpoint_; }

  // Until all have come; throws PeerLost when the time is over, with who is missing.
  std::vector<Descriptor> accept_all(double deadline_seconds, const std::atomic<bool>& given_up) {
    while (num_awaited_ > 0 && !given_up) {
      if (now_seconds() >= deadline_seconds) throw PeerLost(missing_text());
      std::vector<pollfd> polled{{listening_.number(), POLLIN, 0}};
      for (const Visitor& visitor : visitors_) polled.push_back({visitor.socket.number(), POLLIN, 0});
      constexpr double kLookSeconds = 0.2;
      poll(polled.data(), polled.size(),
           poll_milliseconds(std::min(deadline_seconds, now_seconds() + kLookSeconds)));
      auto visitor = visitors_.begin();
      for (std::size_t i = 1; i < polled.size(); ++i, ++visitor)
        if (polled[i].revents) hear(*visitor);
      visitors_.remove_if(
          [now = now_seconds()](const Visitor& v) { return !v.socket || now >= v.until_seconds; });
      if (polled[0].revents) admit();
    }
    return std::move(accepted_);
  }

 private:
  struct Visitor {
    Descriptor socket;
    Digest number;  // sent to it
    double until_seconds;
    std::size_t num_received = 0;
    Claim claim{};
  };

  void admit() {
    for (int i = 0; i < kVisitorsPerPoll; ++i) {
      Descriptor socket(accept4(listening_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      const bool no_room =
          !socket && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS);
      if (no_room && visitors_.empty())
        throw UserError(cat("cannot accept the connections of other ranks: ", system_reason(),
                            ". Raise the limit of open files (ulimit -n), or start fewer ranks."));
      if (no_room || (socket && visitors_.size() >= limits_.most))
        visitors_.pop_front();  // a rank comes again
      if (!socket) return;
      const int on = 1;
      setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      const Digest number = fresh_number();
      if (send(socket.number(), number.data(), number.size(), MSG_NOSIGNAL) != std::ssize(number)) continue;
      visitors_.push_back({std::move(socket), number, now_seconds() + limits_.seconds});
    }
  }

  // Takes what has come of its claim; a visitor that can't prove it loses its socket.
  void hear(Visitor& visitor) {
    char* const into = reinterpret_cast<char*>(&visitor.claim) + visitor.num_received;
    const ssize_t count = recv(visitor.socket.number(), into, sizeof(Claim) - visitor.num_received, 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return visitor.socket.reset();
    visitor.num_received += static_cast<std::size_t>(count);
    if (visitor.num_received < sizeof(Claim)) return;
    Descriptor socket = std::move(visitor.socket);
    const auto place = places_.find(visitor.claim.name);
    if (place == places_.end() || accepted_[place->second]) return;
    const std::string& name = requests_[place->second].name;
    if (!is_proven(endpoint_.secret, visitor.number, name, visitor.claim)) return;
    const Digest answer = answer_to(endpoint_.secret, visitor.number, name, visitor.claim);
    if (send(socket.number(), answer.data(), answer.size(), MSG_NOSIGNAL) != std::ssize(answer)) return;
    accepted_[place->second] = std::move(socket);
    --num_awaited_;
  }

  std::string missing_text() const {
    std::vector<std::string> missing;
    for (std::size_t i = 0; i < requests_.size(); ++i)
      if (!accepted_[i]) missing.push_back(cat(requests_[i].peer));
    return cat("rank ", join(missing, ", "), " did not connect to ", endpoint_.address.host, ":",
               endpoint_.address.port, ". May the hosts of all ranks connect to each other?");
  }

  const Descriptor listening_;
  const Endpoint endpoint_;
  const std::vector<PeerRequest> requests_;
  const StrangerLimits limits_;
  std::map<Digest, std::size_t> places_;  // by hidden name
  std::vector<Descriptor> accepted_;
  std::size_t num_awaited_;
  std::list<Visitor> visitors_;  // in the order they came
};

bool pass_all(const Descriptor& socket, short events, double deadline_seconds,
              std::span<unsigned char> bytes) {
  while (!bytes.empty()) {
    pollfd polled{socket.number(), events, 0};
    if (now_seconds() >= deadline_seconds) return errno = ETIMEDOUT, false;
    poll(&polled, 1, poll_milliseconds(deadline_seconds));
    const ssize_t count = events == POLLOUT ? send(socket.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL)
                                            : recv(socket.number(), bytes.data(), bytes.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count == 0) errno = ECONNRESET;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

// Nothing when the listener could not be reached, or did not prove itself; with errno set.
Descriptor try_to_connect(const Endpoint& endpoint, const std::string& name, double deadline_seconds) {
  Descriptor socket = connect_by(endpoint.address, deadline_seconds);
  Digest number, answer;
  if (!socket || !pass_all(socket, POLLIN, deadline_seconds, number)) return Descriptor();
  Claim claim = claim_of(endpoint.secret, number, name);
  const std::span claim_bytes(reinterpret_cast<unsigned char*>(&claim), sizeof(claim));
  if (!pass_all(socket, POLLOUT, deadline_seconds, claim_bytes) ||
      !pass_all(socket, POLLIN, deadline_seconds, answer))
    return Descriptor();
  if (are_equal(answer, answer_to(endpoint.secret, number, name, claim))) return socket;
  errno = EACCES;
  return Descriptor();
}

Descriptor connect_to_listener(const Endpoint& endpoint, const PeerRequest& request,
                               double deadline_seconds) {
  constexpr double kTrySeconds =
      12;  // a listener that has to make room closes; one that hangs is tried again
  while (true) {
    Descriptor socket =
        try_to_connect(endpoint, request.name, std::min(deadline_seconds, now_seconds() + kTrySeconds));
    if (socket) return socket;
    if (now_seconds() >= deadline_seconds)
      throw PeerLost(cat("rank ", request.peer, " could not be reached at ", endpoint.address.host, ":",
                         endpoint.address.port, ": ", system_reason(),
                         ". May this host connect to that one?"));
    std::this_thread::sleep_for(kPause);
  }
}

class TcpPeers final : public PeerConnector {
 public:
  TcpPeers(KeyStore& keys, int rank, std::string host) : keys_(keys), rank_(rank), host_(std::move(host)) {}

  std::vector<Descriptor> connect(const std::vector<PeerRequest>& requests,
                                  std::chrono::milliseconds timeout) override {
    const double deadline_seconds = now_seconds() + std::chrono::duration<double>(timeout).count();
    std::vector<PeerRequest> awaited, sought;
    for (const PeerRequest& request : requests) (request.peer > rank_ ? awaited : sought).push_back(request);
    std::optional<PeerListener> listener;
    if (!awaited.empty()) listener.emplace(host_, awaited);
    KeyValues puts;
    for (const PeerRequest& request : awaited) puts.emplace_back(request.name, to_text(listener->endpoint()));
    std::vector<std::string> wanted;
    for (const PeerRequest& request : sought) wanted.push_back(request.name);

    std::vector<Descriptor> accepted, connected;
    std::exception_ptr failure;
    std::atomic<bool> given_up = false;
    std::thread accepting;
    if (listener)
      accepting = quiet_thread([&] {
        try {
          accepted = listener->accept_all(deadline_seconds, given_up);
        } catch (...) {
          failure = std::current_exception();
        }
      });
    try {
      const auto endpoints = keys_.put_and_get(puts, wanted, timeout);
      for (std::size_t i = 0; i < sought.size(); ++i)
        connected.push_back(connect_to_listener(parse_endpoint(endpoints[i]), sought[i], deadline_seconds));
    } catch (...) {
      given_up = true;
      if (accepting.joinable()) accepting.join();
      throw;
    }
    if (accepting.joinable()) accepting.join();
    if (failure) std::rethrow_exception(failure);
    std::vector<Descriptor> out;
    auto next_accepted = accepted.begin(), next_connected = connected.begin();
    for (const PeerRequest& request : requests)
      out.push_back(std::move(request.peer > rank_ ? *next_accepted++ : *next_connected++));
    return out;
  }

 private:
  KeyStore& keys_;
  const int rank_;
  const std::string host_;
};

}  // namespace

std::unique_ptr<PeerConnector> tcp_peers(KeyStore& keys, int rank, std::string host) {
  return std::make_unique<TcpPeers>(keys, rank, std::move(host));
}

}  // namespace tessera::launch
