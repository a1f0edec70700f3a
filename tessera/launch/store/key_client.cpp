#include "tessera/launch/store/key_client.hpp"

#include <poll.h>

#include <map>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/launch/net/poll_time.hpp"
#include "tessera/launch/store/meeting.hpp"

namespace tessera::launch {
namespace {

using std::chrono::milliseconds;

// How much later than agreed the server may answer: it keeps the time, the client only guards against its
// death.
constexpr milliseconds kGrace{10000};
constexpr double kGoodbyeSeconds = 1;

}  // namespace

KeyClient::KeyClient(std::unique_ptr<Channel> channel, int rank) : channel_(std::move(channel)) {
  // A server that is gone is told by the first question.
  send_all(encode(Request{.kind = Request::Kind::hello, .rank = rank}),
           now_seconds() + std::chrono::duration<double>(kGrace).count());
}

KeyClient::KeyClient(Descriptor socket, int rank)
    : KeyClient(plain_channel(std::move(socket), Descriptors::taken), rank) {}

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
  return next_reply(request, deadline_seconds);
}

Reply KeyClient::next_reply(const Request& request, double deadline_seconds) {
  const std::uint32_t length = body_bytes(receive_exactly(kLengthBytes, deadline_seconds));
  if (length > kMaxBodyBytes) throw PeerLost("the key server sent a reply that is too long");
  const auto reply = parse_reply(receive_exactly(length, deadline_seconds));
  if (!reply) throw PeerLost("the key server sent a malformed reply");
  has_answered_ = true;
  const std::string words = tessera::join(reply->texts, ", ");
  if (reply->kind == Reply::Kind::missing)
    throw PeerLost(cat(request.kind == Request::Kind::connect ? "no peer asked for " : "no peer wrote ",
                       words, " within ", request.timeout_milliseconds, " ms"));
  if (reply->kind == Reply::Kind::refused) throw PeerLost(cat("the key server refused: ", words));
  return *reply;
}

std::vector<std::string> KeyClient::put_and_get(const KeyValues& puts, const std::vector<std::string>& wanted,
                                                milliseconds timeout) {
  const Request request{.timeout_milliseconds = timeout.count(), .puts = puts, .keys = wanted};
  const Reply reply = ask(request, timeout + kGrace);
  if (reply.kind == Reply::Kind::lost) throw PeerLost(tessera::join(reply.texts, ", "));
  if (reply.texts.size() != wanted.size())
    throw PeerLost("the key server answered with another number of values");
  return reply.texts;
}

std::vector<Descriptor> KeyClient::connect(const std::vector<PeerRequest>& requests, milliseconds timeout) {
  Request request{.kind = Request::Kind::connect, .timeout_milliseconds = timeout.count()};
  for (const PeerRequest& each : requests) {
    request.keys.push_back(each.name);
    request.puts.emplace_back(each.name, cat(each.peer));
  }
  const auto& names = request.keys;
  if (names.empty()) return {};
  std::scoped_lock lock(mutex_);
  const double deadline_seconds = now_seconds() + std::chrono::duration<double>(timeout + kGrace).count();
  send_all(encode(request), deadline_seconds);
  std::map<std::string, Descriptor> by_name;
  while (by_name.size() < names.size()) {
    const Reply reply = next_reply(request, deadline_seconds);
    if (reply.kind == Reply::Kind::lost) throw PeerLost(tessera::join(reply.texts, ", "));
    Descriptor arrived = channel_->take_descriptor();
    if (reply.kind != Reply::Kind::connected || reply.texts.size() != 1 || !arrived)
      throw PeerLost(
          "the key server sent no descriptor where one was due; is this process's limit of open files "
          "reached (ulimit -n)?");
    by_name.emplace(reply.texts[0], std::move(arrived));
  }
  std::vector<Descriptor> out;
  for (const auto& name : names) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) throw PeerLost("the key server connected what nobody asked for");
    out.push_back(std::move(found->second));
  }
  return out;
}

// There is no deadline: whoever watches the ranks ends those that hold up the others.
std::vector<Attendant> KeyClient::attend(Request request, const std::vector<int>& ranks) {
  constexpr milliseconds kForEver{std::chrono::hours(24 * 365)};
  for (const int rank : ranks) request.keys.push_back(cat(rank));
  const Reply reply = ask(request, kForEver);
  if (reply.kind == Reply::Kind::lost) throw PeerLost(tessera::join(reply.texts, ", "));
  return attendants_of(reply);
}

std::vector<Attendant> KeyClient::meet(const std::vector<int>& expected, const std::string& brought,
                                       bool admits) {
  return attend({.kind = admits ? Request::Kind::admit : Request::Kind::meet, .report = brought}, expected);
}

std::vector<Attendant> KeyClient::join(const std::vector<int>& together) {
  return attend({.kind = Request::Kind::join}, together);
}

std::optional<std::string> KeyClient::report(std::string_view bytes, milliseconds timeout) {
  const Request request{.kind = Request::Kind::report, .report = std::string(bytes)};
  const Reply reply = ask(request, timeout);
  if (reply.kind == Reply::Kind::lost) return tessera::join(reply.texts, ", ");
  return std::nullopt;
}

bool KeyClient::has_answered() {
  std::scoped_lock lock(mutex_);
  return has_answered_;
}

}  // namespace tessera::launch
