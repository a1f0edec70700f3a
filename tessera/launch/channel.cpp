#include "tessera/launch/channel.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "tessera/base/error.hpp"

namespace tessera::launch {
namespace {

class PlainChannel final : public Channel {
 public:
  explicit PlainChannel(Descriptor socket) : socket_(std::move(socket)) {
    CHECK(fcntl(socket_.number(), F_SETFL, O_NONBLOCK) == 0, system_reason());
  }

  int descriptor() const override { return socket_.number(); }
  std::optional<std::size_t> receive(std::span<char> into) override {
    const ssize_t count = recv(socket_.number(), into.data(), into.size(), 0);
    if (count == 0) return std::nullopt;
    return moved(count);
  }
  std::optional<std::size_t> send(std::string_view bytes) override {
    return moved(::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  short events_to_receive() const override { return POLLIN; }
  short events_to_send() const override { return POLLOUT; }
  void end_sending() override { shutdown(socket_.number(), SHUT_WR); }

 private:
  static std::optional<std::size_t> moved(ssize_t count) {
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno == EAGAIN || errno == EINTR) return 0;
    return std::nullopt;
  }

  Descriptor socket_;
};

}  // namespace

std::unique_ptr<Channel> plain_channel(Descriptor socket) {
  return std::make_unique<PlainChannel>(std::move(socket));
}

}  // namespace tessera::launch
