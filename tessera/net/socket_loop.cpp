#include "tessera/net/socket_loop.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "tessera/base/error.hpp"
#include "tessera/base/process/quiet_thread.hpp"

namespace tessera::net {
namespace {

constexpr std::uint64_t kBell = 0;  // connections are numbered from 1

}  // namespace

SocketLoop::SocketLoop() : epoll_(epoll_create1(EPOLL_CLOEXEC)), bell_(eventfd(0, EFD_CLOEXEC)) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kBell}};
  if (!epoll_ || !bell_ || epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, bell_.number(), &event) != 0)
    throw UserError(cat("cannot watch the connections between ranks: ", system_reason(),
                        ". Raise the limit of open files (ulimit -n)."));
  thread_ = quiet_thread([this] { run(); });
}

SocketLoop::~SocketLoop() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t rung = ::write(bell_.number(), &one, sizeof(one));
  thread_.join();
  abort("the rank has ended");
}

void SocketLoop::add(const std::shared_ptr<Connection>& connection) {
  std::uint64_t id;
  {
    const std::scoped_lock lock(mutex_);
    id = ++last_id_;
    connections_.emplace(id, connection);
  }
  connection->watch_with(epoll_.number(), id);
}

void SocketLoop::remove(const std::shared_ptr<Connection>& connection) {
  connection->abort("the group has ended");
  const std::scoped_lock lock(mutex_);
  std::erase_if(connections_, [&](const auto& entry) { return entry.second == connection; });
}

void SocketLoop::abort(const std::string& reason) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, connection] : connections_) connection->abort(reason);
}

std::shared_ptr<Connection> SocketLoop::find(std::uint64_t id) {
  const std::scoped_lock lock(mutex_);
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second;
}

void SocketLoop::run() {
  std::array<epoll_event, 64> events;
  while (true) {
    const int count = epoll_wait(epoll_.number(), events.data(), static_cast<int>(events.size()), -1);
    if (count < 0 && errno != EINTR)
      return abort(cat("the connections cannot be watched: ", system_reason()));
    for (int i = 0; i < count; ++i) {
      const auto& event = events[static_cast<std::size_t>(i)];
      if (event.data.u64 == kBell) return;
      const auto connection = find(event.data.u64);
      if (!connection) continue;
      if (event.events & EPOLLOUT) connection->write();
      if (event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) connection->read();
    }
  }
}

}  // namespace tessera::net
