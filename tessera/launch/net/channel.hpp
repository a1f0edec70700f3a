// Bytes over one connection without waiting: plain here, encrypted in tls.hpp.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "tessera/launch/net/unix_socket.hpp"

namespace tessera::launch {

// Moves what it can at once. receive and send return how many bytes passed, 0 when none can pass now, and
// nothing when the connection has ended.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual int descriptor() const = 0;
  virtual std::optional<std::size_t> receive(std::span<char> into) = 0;
  virtual std::optional<std::size_t> send(std::string_view bytes) = 0;
  // What to poll for when nothing could be received or sent.
  virtual short events_to_receive() const = 0;
  virtual short events_to_send() const = 0;
  // No more is sent from here; what was sent still arrives.
  virtual void end_sending() = 0;

  // Descriptors pass over Unix sockets only. One that is sent arrives with the first of these bytes.
  virtual bool carries_descriptors() const { return false; }
  virtual std::optional<std::size_t> send_with(std::string_view bytes, const Descriptor& descriptor);
  // The first of those that have arrived; nothing when there is none.
  virtual Descriptor take_descriptor() { return Descriptor(); }
};

enum class Descriptors { refused, taken };

// Over a Unix socket. Descriptors that arrive are closed at once unless they are to be taken.
std::unique_ptr<Channel> plain_channel(Descriptor socket, Descriptors arriving = Descriptors::refused);

}  // namespace tessera::launch
