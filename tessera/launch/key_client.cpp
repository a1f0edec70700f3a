#include "tessera/launch/key_client.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"

namespace tessera::launch {
namespace {

using std::chrono::milliseconds;

// How much later than agreed the server may answer: it keeps the time, the client only guards against its death.
constexpr milliseconds kGrace{10000};

// False when the connection is gone.
bool send_all(const Descriptor& socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = send(socket.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

std::string receive_exactly(const Descriptor& socket, std::size_t num_bytes, double deadline_seconds) {
  std::string bytes(num_bytes, 0);
  std::size_t have = 0;
  while (have < num_bytes) {
    const double left = std::max(0.0, deadline_seconds - now_seconds());
    pollfd polled{socket.number(), POLLIN, 0};
    const int ready = poll(&polled, 1, static_cast<int>(std::min(left * 1000 + 1, 60000.0)));
    if (ready == 0 && left <= 0) throw PeerLost("the key server does not answer");
    if (ready <= 0) continue;
    const ssize_t count = recv(socket.number(), bytes.data() + have, num_bytes - have, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw PeerLost("the key server has closed the connection: the launcher is gone");
    have += static_cast<std::size_t>(count);
  }
  return bytes;
}

}  // namespace

KeyClient::KeyClient(const std::string& path) : socket_(connect_to(path)) {
  if (const uid_t user = peer_user(socket_); user != geteuid())
    throw UserError(cat("the key server at ", path, " belongs to user ", user, ", not to you"));
}

KeyClient::~KeyClient() {
  Request goodbye;
  goodbye.kind = Request::Kind::goodbye;
  send_all(socket_, encode(goodbye));
}

Reply KeyClient::ask(const Request& request, Reply::Kind expected, milliseconds timeout) {
  std::scoped_lock lock(mutex_);
  const double deadline_seconds = now_seconds() + std::chrono::duration<double>(timeout + kGrace).count();
  // A server that refuses may close before it has read all; its words are still there to be read.
  send_all(socket_, encode(request));
  const std::uint32_t length = body_bytes(receive_exactly(socket_, kLengthBytes, deadline_seconds));
  if (length > kMaxBodyBytes) throw PeerLost("the key server sent a reply that is too long");
  const auto reply = parse_reply(receive_exactly(socket_, length, deadline_seconds));
  if (!reply) throw PeerLost("the key server sent a malformed reply");
  if (reply->kind == expected) return *reply;
  const std::string words = join(reply->texts, ", ");
  if (reply->kind == Reply::Kind::missing)
    throw PeerLost(cat("no peer wrote ", words, " within ", timeout.count(), " ms"));
  if (reply->kind == Reply::Kind::refused) throw PeerLost(cat("the key server refused: ", words));
  throw PeerLost(words);
}

std::vector<std::string> KeyClient::exchange(const KeyValues& puts, const std::vector<std::string>& wanted,
                                             milliseconds timeout) {
  const Request request{Request::Kind::exchange, timeout.count(), puts, wanted};
  auto values = ask(request, Reply::Kind::values, timeout).texts;
  if (values.size() != wanted.size()) throw PeerLost("the key server answered with another number of values");
  return values;
}

}  // namespace tessera::launch
