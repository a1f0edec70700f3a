#include "tessera/net/connection.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <optional>

#include "tessera/base/error.hpp"

namespace tessera::net {
namespace {

// Other connections of the loop get their turn.
constexpr int kReceivesPerRound = 16;
constexpr std::size_t kMostParts = 16;

template <typename T>
std::optional<T> take_first(std::map<std::int32_t, std::deque<T>>& by_tag, std::int32_t tag) {
  const auto found = by_tag.find(tag);
  if (found == by_tag.end()) return std::nullopt;
  T first = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) by_tag.erase(found);
  return first;
}

}  // namespace

Connection::Connection(Descriptor socket, std::string peer)
    : socket_(std::move(socket)), peer_(std::move(peer)) {
  TESSERA_CHECK(fcntl(socket_.number(), F_SETFL, O_NONBLOCK) == 0, system_reason());
}

std::string Connection::closed_text() const { return cat(peer_, " has closed the connection"); }

// Of errno.
std::string Connection::failure_text() const {
  return errno == ECONNRESET || errno == EPIPE ? closed_text() : cat(peer_, " is gone: ", system_reason());
}

Connection::~Connection() { abort("the connection was closed here"); }

TransferPtr Connection::send(std::int32_t tag, Buffer buffer) {
  auto transfer = std::make_shared<Transfer>(std::move(buffer));
  const std::scoped_lock lock(mutex_);
  if (!failure_.empty()) {
    transfer->fail(failure_);
  } else if (const auto grant = take_first(unused_grants_, tag)) {
    queue_data(tag, transfer, *grant);
    flush();
  } else {
    ungranted_sends_[tag].push_back(transfer);
  }
  return transfer;
}

TransferPtr Connection::receive(std::int32_t tag, Buffer buffer) {
  auto transfer = std::make_shared<Transfer>(std::move(buffer));
  const std::scoped_lock lock(mutex_);
  if (!failure_.empty()) {
    transfer->fail(failure_);
    return transfer;
  }
  receives_[tag].push_back(transfer);
  grants_.push_back({.header = {Kind::grant, tag, transfer->buffer().bytes}});
  flush();
  return transfer;
}

void Connection::abort(const std::string& reason) {
  const std::scoped_lock lock(mutex_);
  end(reason);
}

void Connection::watch_with(int epoll, std::uint64_t id) {
  const std::scoped_lock lock(mutex_);
  epoll_ = epoll;
  id_ = id;
  epoll_event event{.events = EPOLLIN, .data = {.u64 = id}};
  TESSERA_CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, socket_.number(), &event) == 0, system_reason());
  flush();
}

void Connection::write() {
  const std::scoped_lock lock(mutex_);
  if (failure_.empty()) flush();
}

void Connection::queue_data(std::int32_t tag, TransferPtr transfer, std::uint64_t granted_bytes) {
  const std::size_t bytes = transfer->buffer().bytes;
  data_.push_back({.header = {Kind::data, tag, bytes}, .transfer = std::move(transfer)});
  if (bytes != granted_bytes)
    end(cat(peer_, " expects ", granted_bytes, " bytes where ", bytes, " are sent (tag ", tag, ")"));
}

void Connection::flush() {
  while (failure_.empty() && send_some()) continue;
  if (failure_.empty()) watch_for(!grants_.empty() || !data_.empty());
}

// As much as the socket takes of the first few messages; false when there is nothing to send, or no room.
bool Connection::send_some() {
  std::array<iovec, kMostParts> parts;
  std::size_t count = 0;
  const auto add = [&](Outgoing& message) {
    if (count + 2 > kMostParts) return;
    const std::size_t head = std::min(message.sent, sizeof(Header)), body = message.sent - head;
    if (head < sizeof(Header))
      parts[count++] = {reinterpret_cast<char*>(&message.header) + head, sizeof(Header) - head};
    if (message.transfer && body < message.transfer->buffer().bytes)
      parts[count++] = {message.transfer->buffer().data + body, message.transfer->buffer().bytes - body};
  };
  const bool is_data_begun = !data_.empty() && data_.front().sent > 0;
  if (is_data_begun) add(data_.front());
  for (auto& message : grants_) add(message);
  for (std::size_t i = is_data_begun ? 1 : 0; i < data_.size() && count + 2 <= kMostParts; ++i) add(data_[i]);
  if (count == 0) return false;
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  const ssize_t sent = sendmsg(socket_.number(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && errno == EINTR) return true;
  if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS)) return false;
  if (sent < 0) {
    end(failure_text());
    return false;
  }
  take_off(static_cast<std::size_t>(sent));
  return true;
}

// In the order in which send_some has put them.
void Connection::take_off(std::size_t sent_bytes) {
  const auto take_from = [&](std::deque<Outgoing>& queue) {
    Outgoing& first = queue.front();
    const std::size_t taken = std::min(sent_bytes, first.bytes() - first.sent);
    first.sent += taken;
    sent_bytes -= taken;
    if (first.sent < first.bytes()) return;
    if (first.transfer) first.transfer->succeed();
    queue.pop_front();
  };
  if (!data_.empty() && data_.front().sent > 0) take_from(data_);
  while (sent_bytes > 0 && !grants_.empty()) take_from(grants_);
  while (sent_bytes > 0) take_from(data_);
}

void Connection::watch_for(bool room) {
  if (epoll_ < 0 || room == watches_room_) return;
  watches_room_ = room;
  epoll_event event{.events = EPOLLIN | (room ? EPOLLOUT : 0u), .data = {.u64 = id_}};
  TESSERA_CHECK(epoll_ctl(epoll_, EPOLL_CTL_MOD, socket_.number(), &event) == 0, system_reason());
}

void Connection::end(const std::string& reason) {
  if (!failure_.empty()) return;
  failure_ = reason;
  if (epoll_ >= 0) epoll_ctl(epoll_, EPOLL_CTL_DEL, socket_.number(), nullptr);
  shutdown(socket_.number(), SHUT_RDWR);
  for (auto& message : data_) message.transfer->fail(reason);
  for (auto* by_tag : {&receives_, &ungranted_sends_})
    for (auto& [tag, transfers] : *by_tag)
      for (auto& transfer : transfers) transfer->fail(reason);
  data_.clear(), grants_.clear(), receives_.clear(), ungranted_sends_.clear(), unused_grants_.clear();
  if (arriving_) arriving_->fail(reason);
  arriving_.reset();
}

void Connection::read() {
  for (int i = 0; i < kReceivesPerRound; ++i) {
    const bool in_header = in_.header_bytes < sizeof(Header);
    char* const into =
        in_header ? reinterpret_cast<char*>(&in_.header) + in_.header_bytes : in_.into.data + in_.received;
    const std::size_t wanted = in_header ? sizeof(Header) - in_.header_bytes : in_.into.bytes - in_.received;
    const ssize_t count = recv(socket_.number(), into, wanted, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return abort(count == 0 ? closed_text() : failure_text());
    (in_header ? in_.header_bytes : in_.received) += static_cast<std::size_t>(count);
    if (in_header && in_.header_bytes == sizeof(Header) && !finish_header()) return;
    if (!in_header && in_.received == in_.into.bytes) {
      const std::scoped_lock lock(mutex_);
      finish_payload();
    }
  }
}

// False when the connection has ended.
bool Connection::finish_header() {
  const std::scoped_lock lock(mutex_);
  const auto [kind, tag, bytes] = in_.header;
  if (!failure_.empty()) return false;
  if (kind == Kind::grant) {
    in_.header_bytes = 0;
    if (auto send = take_first(ungranted_sends_, tag)) {
      queue_data(tag, std::move(*send), bytes);
      flush();
    } else {
      unused_grants_[tag].push_back(bytes);
    }
    return failure_.empty();
  }
  auto receive = kind == Kind::data ? take_first(receives_, tag) : std::nullopt;
  if (!receive || (*receive)->buffer().bytes != bytes) {
    if (receive) (*receive)->fail(cat(peer_, " sent another number of bytes than was expected"));
    end(cat(peer_, " sent what nobody expects (tag ", tag, ", ", bytes, " bytes)"));
    return false;
  }
  in_.into = (*receive)->buffer();
  in_.received = 0;
  arriving_ = std::move(*receive);
  if (bytes == 0) finish_payload();
  return true;
}

void Connection::finish_payload() {
  if (arriving_) arriving_->succeed();
  arriving_.reset();
  in_ = {};
}

}  // namespace tessera::net
