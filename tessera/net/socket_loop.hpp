// The thread that carries on the transfers of a process's connections, so that bytes move while the ranks
// compute.
#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "tessera/net/connection.hpp"

namespace tessera::net {

class SocketLoop {
 public:
  SocketLoop();
  // The connections that are left are aborted.
  ~SocketLoop();
  SocketLoop(const SocketLoop&) = delete;
  SocketLoop& operator=(const SocketLoop&) = delete;

  // The loop holds it until it is removed, or has ended.
  void add(const std::shared_ptr<Connection>& connection);
  void remove(const std::shared_ptr<Connection>& connection);
  void abort(const std::string& reason);

 private:
  void run();
  std::shared_ptr<Connection> find(std::uint64_t id);

  const Descriptor epoll_, bell_;  // the bell ends the thread
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Connection>> connections_;  // guarded by mutex_
  std::uint64_t last_id_ = 0;
  std::thread thread_;
};

}  // namespace tessera::net
