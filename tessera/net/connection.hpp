// A stream socket between two ranks that carries buffers by tag. Any thread may begin a transfer; the
// SocketLoop moves the bytes.
//
// 1. A receive grants its tag and size to the other end, and a send waits for the grant. So nothing arrives
//    before it has a place, and no rank holds data that nobody has asked for.
// 2. Transfers with equal tags match in the order in which they were begun.
// 3. The first error ends the connection: all transfers in flight, and all that are begun later, fail with
//    its message.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "tessera/base/files/descriptor.hpp"
#include "tessera/net/transfer.hpp"

namespace tessera::net {

class Connection {
 public:
  // `peer` names the other end in errors, such as "rank 3".
  Connection(Descriptor socket, std::string peer);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  TransferPtr send(std::int32_t tag, Buffer buffer);
  TransferPtr receive(std::int32_t tag, Buffer buffer);
  // Fails all transfers, here and at the other end.
  void abort(const std::string& reason);

  // For the loop, on its one thread: the socket to watch, and what to do when it has bytes or room.
  int descriptor() const { return socket_.number(); }
  void watch_with(int epoll, std::uint64_t id);
  void read();
  void write();

 private:
  enum class Kind : std::uint32_t { data = 0x7e55e001, grant = 0x7e55e002 };
  struct Header {
    Kind kind = Kind::data;
    std::int32_t tag = 0;
    std::uint64_t bytes = 0;
  };
  struct Outgoing {
    Header header;
    TransferPtr transfer = nullptr;  // null: a grant
    std::size_t sent = 0;            // header included
    std::size_t bytes() const { return sizeof(Header) + (transfer ? transfer->buffer().bytes : 0); }
  };
  struct Incoming {
    Header header;
    std::size_t header_bytes = 0;  // that have come
    Buffer into;  // with an owner of its own: the transfer may be failed by another thread meanwhile
    std::size_t received = 0;
  };
  template <typename T>
  using ByTag = std::map<std::int32_t, std::deque<T>>;

  // With the lock held.
  void queue_data(std::int32_t tag, TransferPtr transfer, std::uint64_t granted_bytes);
  void flush();
  bool send_some();
  void take_off(std::size_t sent_bytes);
  void watch_for(bool room);
  void end(const std::string& reason);

  bool finish_header();
  void finish_payload();
  std::string closed_text() const;
  std::string failure_text() const;

  const Descriptor socket_;
  const std::string peer_;
  std::mutex mutex_;
  std::deque<Outgoing> grants_, data_;  // grants go first, between two messages
  ByTag<TransferPtr> receives_, ungranted_sends_;
  ByTag<std::uint64_t> unused_grants_;
  TransferPtr arriving_;
  std::string failure_;  // of the connection; empty: none
  int epoll_ = -1;
  std::uint64_t id_ = 0;
  bool watches_room_ = false;
  Incoming in_;  // of the loop's thread alone
};

}  // namespace tessera::net
