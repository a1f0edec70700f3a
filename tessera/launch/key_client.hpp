// How does a rank reach the keys of its job? Over one connection to the launcher's KeyServer; each call is one round
// trip. Any thread may call; calls take turns.
#pragma once

#include <mutex>
#include <string>

#include "tessera/base/key_store.hpp"
#include "tessera/launch/unix_socket.hpp"
#include "tessera/launch/wire.hpp"

namespace tessera::launch {

class KeyClient final : public KeyStore {
 public:
  // Throws UserError when nobody listens at `path` or the server belongs to another user.
  explicit KeyClient(const std::string& path);
  // Says goodbye: a connection that ends without it counts as a lost rank.
  ~KeyClient() override;

  std::vector<std::string> exchange(const KeyValues& puts, const std::vector<std::string>& wanted,
                                    std::chrono::milliseconds timeout) override;

 private:
  Reply ask(const Request& request, Reply::Kind expected, std::chrono::milliseconds timeout);

  std::mutex mutex_;
  Descriptor socket_;
};

}  // namespace tessera::launch
