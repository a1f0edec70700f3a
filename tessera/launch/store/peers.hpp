// Connections from rank to rank: handed over by the key server on one host, made over TCP between hosts.
#pragma once

#include <memory>
#include <string>

#include "tessera/base/process/key_store.hpp"
#include "tessera/base/process/peer_connector.hpp"
#include "tessera/launch/store/key_client.hpp"

namespace tessera::launch {

// All ranks are on this host. The connections are pairs of Unix sockets without names: nothing listens, no
// file exists, and no process but the two ranks ever holds an end. `keys` must outlive it.
std::unique_ptr<PeerConnector> local_peers(KeyClient& keys);

// Ranks are on several hosts. The lower rank listens at `host`, an address of this machine, while connections
// are being made; the other one connects. Both prove that they know a secret which the lower rank has left in
// the store, before either sends anything else, so who can't read the store (TLS, with the job's key) gets no
// place and no data. `keys` must outlive it.
std::unique_ptr<PeerConnector> tcp_peers(KeyStore& keys, int rank, std::string host);

}  // namespace tessera::launch
