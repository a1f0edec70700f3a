// Where do the ranks of a job leave keys for each other? At one thread of the launcher, behind a Unix socket in a
// folder of its own that no other user may enter.
#pragma once

#include <unistd.h>

#include <memory>
#include <string>

namespace tessera::launch {

class KeyServer {
 public:
  // Only clients of `user` are served. Throws UserError when there is no room for the folder or the socket.
  explicit KeyServer(uid_t user = geteuid());
  // Ends all connections and removes the socket and its folder.
  ~KeyServer();
  KeyServer(const KeyServer&) = delete;
  KeyServer& operator=(const KeyServer&) = delete;

  const std::string& path() const;
  // From now on every client that waits or asks gets PeerLost with these words.
  void abort(const std::string& reason);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace tessera::launch
