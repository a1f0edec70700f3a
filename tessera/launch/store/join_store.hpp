// The store of a job that somebody else started, kept by rank 0: behind a Unix socket when all are on one
// host, else behind an address and a key that the user names.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "tessera/launch/store/join.hpp"
#include "tessera/launch/store/key_client.hpp"
#include "tessera/launch/store/key_server.hpp"
#include "tessera/launch/store/peers.hpp"

namespace tessera::launch {

struct StoreOptions {
  std::string address = {};   // host:port; empty: a Unix socket
  std::string key_file = {};  // with an address
  std::string key_descriptor =
      {};  // number of an inherited descriptor to read the key from; goes before the file
  std::chrono::milliseconds timeout{60000};  // for all to come
};

// What the run file says, unless TESSERA_STORE, TESSERA_KEY_FILE or TESSERA_KEY_FD say otherwise.
StoreOptions store_options(const Environment& environment, const std::string& address,
                           const std::string& key_file, std::chrono::milliseconds timeout);

class JoinedStore {
 public:
  // Comes back once this rank is connected; on rank 0, which serves with these callbacks, once all are.
  // Throws UserError when ranks on several hosts have no address or key, and when something is wrong with
  // them; PeerLost when rank 0 can't be reached or others don't come.
  JoinedStore(const Membership& membership, const StoreOptions& options, KeyServerCallbacks callbacks = {});

  // Rank 0 waits until the others have left, lest they miss it; the others don't wait.
  void wait_for_others();

  // Two connections, see KeyClient.
  KeyClient& keys() { return *keys_; }
  KeyClient& reports() { return *reports_; }
  // Connections to the other ranks: handed over by rank 0's server, or over TCP where an address was named.
  PeerConnector& peers() { return *peers_; }
  // On rank 0; else null.
  KeyServer* server() { return server_ ? &*server_ : nullptr; }

 private:
  const std::chrono::milliseconds timeout_;
  std::optional<KeyServer> server_;
  std::unique_ptr<KeyClient> keys_, reports_;
  std::unique_ptr<PeerConnector> peers_;
};

}  // namespace tessera::launch
