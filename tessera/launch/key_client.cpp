#include "tessera/launch/key_client.hpp"

#include <poll.h>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/launch/poll_time.hpp"

namespace tessera::launch {
namespace {

using std::chrono::milliseconds;

// How much later than agreed the server may answer: it keeps the time, the client only guards against its death.
constexpr milliseconds kGrace{10000};
constexpr double kGoodbyeSeconds = 1;

}  // namespace

KeyClient::KeyClient(std::unique_ptr<Channel> channel, int rank) : channel_(std::move(channel)) {
  // A server that is gone is told by the first question.
  send_all(encode(Request{.kind = Request::Kind::hello, .rank = rank}),
           now_seconds() + std::chrono::duration<double>(kGrace).count());
}

KeyClient::KeyClient(Descriptor socket, int rank) : KeyClient(plain_channel(std::move(socket)), rank) {}

KeyClient::~KeyClient() {
  send_all(encode(Request{.kind = Request::Kind::goodbye}), now_seconds() + kGoodbyeSeconds);
}

bool KeyClient::wait_for(short events, double deadline_seconds) {
  if (now_seconds() >= deadline_seconds) return false;
  pollfd polled{channel_->descriptor(), events, 0};
  poll(&polled, 1, poll_milliseconds(deadline_seconds));
  return true;
}

bool KeyClient::send_all(std::string_view bytes, double deadline_seconds) {
  while (!bytes.empty()) {
    const auto count = channel_->send(bytes);
    if (!count) return false;
    bytes.remove_prefix(*count);
    if (*count == 0 && !wait_for(channel_->events_to_send(), deadline_seconds)) return false;
  }
  return true;
}

std::string KeyClient::receive_exactly(std::size_t num_bytes, double deadline_seconds) {
  std::string bytes(num_bytes, 0);
  std::size_t have = 0;
  while (have < num_bytes) {
    const auto count = channel_->receive(std::span(bytes).subspan(have));
    if (!count)
      throw PeerLost(
          "the key server has closed the connection: the launcher is gone, or rank 0 if another program has "
          "started the ranks");
    have += *count;
    if (*count == 0 && !wait_for(channel_->events_to_receive(), deadline_seconds))
      throw PeerLost("the key server does not answer");
  }
  return bytes;
}

Reply KeyClient::ask(const Request& request, milliseconds patience) {
  std::scoped_lock lock(mutex_);
  const double deadline_seconds = now_seconds() + std::chrono::duration<double>(patience).count();
  // A server that refuses may close before it has read all; its words are still there to be read.
  send_all(encode(request), deadline_seconds);
  const std::uint32_t length = body_bytes(receive_exactly(kLengthBytes, deadline_seconds));
  if (length > kMaxBodyBytes) throw PeerLost("the key server sent a reply that is too long");
  const auto reply = parse_reply(receive_exactly(length, deadline_seconds));
  if (!reply) throw PeerLost("the key server sent a malformed reply");
  has_answered_ = true;
  const std::string words = join(reply->texts, ", ");
  if (reply->kind == Reply::Kind::missing)
    throw PeerLost(cat("no peer wrote ", words, " within ", request.timeout_milliseconds, " ms"));
  if (reply->kind == Reply::Kind::refused) throw PeerLost(cat("the key server refused: ", words));
  return *reply;
}

std::vector<std::string> KeyClient::exchange(const KeyValues& puts, const std::vector<std::string>& wanted,
                                             milliseconds timeout) {
  const Request request{.timeout_milliseconds = timeout.count(), .puts = puts, .keys = wanted};
  const Reply reply = ask(request, timeout + kGrace);
  if (reply.kind == Reply::Kind::lost) throw PeerLost(join(reply.texts, ", "));
  if (reply.texts.size() != wanted.size())
    throw PeerLost("the key server answered with another number of values");
  return reply.texts;
}

std::optional<std::string> KeyClient::report(std::string_view bytes, milliseconds timeout) {
  const Request request{.kind = Request::Kind::report, .report = std::string(bytes)};
  const Reply reply = ask(request, timeout);
  if (reply.kind == Reply::Kind::lost) return join(reply.texts, ", ");
  return std::nullopt;
}

bool KeyClient::has_answered() {
  std::scoped_lock lock(mutex_);
  return has_answered_;
}

}  // namespace tessera::launch
