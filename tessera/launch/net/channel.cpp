#include "tessera/launch/net/channel.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <deque>

#include "tessera/base/error.hpp"

namespace tessera::launch {
namespace {

class PlainChannel final : public Channel {
 public:
  PlainChannel(Descriptor socket, Descriptors arriving)
      : socket_(std::move(socket)), takes_descriptors_(arriving == Descriptors::taken) {
    TESSERA_CHECK(fcntl(socket_.number(), F_SETFL, O_NONBLOCK) == 0, system_reason());
  }

  int descriptor() const override { return socket_.number(); }
  std::optional<std::size_t> receive(std::span<char> into) override {
    iovec part{into.data(), into.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (takes_descriptors_) message.msg_control = control, message.msg_controllen = sizeof(control);
    const ssize_t count = recvmsg(socket_.number(), &message, MSG_CMSG_CLOEXEC);
    if (count == 0) return std::nullopt;
    if (count > 0)
      for (cmsghdr* head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) keep(*head);
    return moved(count);
  }
  std::optional<std::size_t> send(std::string_view bytes) override {
    return moved(::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  short events_to_receive() const override { return POLLIN; }
  short events_to_send() const override { return POLLOUT; }
  void end_sending() override { shutdown(socket_.number(), SHUT_WR); }

  bool carries_descriptors() const override { return true; }
  std::optional<std::size_t> send_with(std::string_view bytes, const Descriptor& descriptor) override {
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    const int number = descriptor.number();
    std::memcpy(CMSG_DATA(head), &number, sizeof(number));
    const ssize_t count = sendmsg(socket_.number(), &message, MSG_NOSIGNAL);
    // Too many descriptors of this user are on their way: some will have arrived soon.
    if (count < 0 && errno == ETOOMANYREFS) return poll(nullptr, 0, 1), 0;
    return moved(count);
  }
  Descriptor take_descriptor() override {
    if (arrived_.empty()) return Descriptor();
    Descriptor first = std::move(arrived_.front());
    arrived_.pop_front();
    return first;
  }

 private:
  void keep(const cmsghdr& head) {
    if (head.cmsg_level != SOL_SOCKET || head.cmsg_type != SCM_RIGHTS) return;
    int number = -1;
    std::memcpy(&number, CMSG_DATA(&head), sizeof(number));
    arrived_.emplace_back(number);
  }
  static std::optional<std::size_t> moved(ssize_t count) {
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EAGAIN || errno == EINTR) return 0;
    return std::nullopt;
  }

  Descriptor socket_;
  const bool takes_descriptors_;
  std::deque<Descriptor> arrived_;
};

}  // namespace

std::optional<std::size_t> Channel::send_with(std::string_view, const Descriptor&) {
  throw Bug("a descriptor is sent where none can pass");
}

std::unique_ptr<Channel> plain_channel(Descriptor socket, Descriptors arriving) {
  return std::make_unique<PlainChannel>(std::move(socket), arriving);
}

}  // namespace tessera::launch
