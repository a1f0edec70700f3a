// Listeners of the KeyServer, which decide who may connect from outside its process.
#pragma once

#include <memory>
#include <string>

#include "tessera/launch/net/channel.hpp"

namespace tessera::launch {

struct Connection {
  std::unique_ptr<Channel> channel;
  std::string refusal = {};  // not empty: words to part with
};

class Listener {
 public:
  explicit Listener(Descriptor listening) : listening_(std::move(listening)) {}
  virtual ~Listener() = default;
  int descriptor() const { return listening_.number(); }
  virtual Connection receive(Descriptor connection) const = 0;

 private:
  Descriptor listening_;
};

// Processes of `user` that connect to the Unix socket at `path`, which goes with the listener. What a dead
// process has left there is replaced. Throws UserError when somebody serves there, the path is too long or
// the system refuses.
std::unique_ptr<Listener> unix_listener(const std::string& path, uid_t user);

}  // namespace tessera::launch
