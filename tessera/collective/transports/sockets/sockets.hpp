// Ranks in different processes that talk over stream sockets: handed to them on one host, made by themselves
// and authenticated between hosts (base/process/peer_connector.hpp).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "tessera/base/process/peer_connector.hpp"
#include "tessera/collective/transport.hpp"

namespace tessera::net {
class SocketLoop;
}

namespace tessera::collective {

class SocketCommunicator final : public Communicator {
 public:
  // The connector must outlive the communicator; groups need it only while they are made.
  SocketCommunicator(PeerConnector& connector, const Seat& seat);
  ~SocketCommunicator() override;
  // Ends all connections.
  void abort() const override;

 private:
  std::vector<std::shared_ptr<Link>> connect(const std::vector<std::vector<int>>& rank_lists) const override;

  PeerConnector& connector_;
  const Seat seat_;
  const std::shared_ptr<net::SocketLoop> loop_;
  mutable std::map<std::vector<int>, int> num_made_;
};

Transport sockets_transport();

}  // namespace tessera::collective
