#include "tessera/launch/store/peers.hpp"

namespace tessera::launch {
namespace {

class LocalPeers final : public PeerConnector {
 public:
  explicit LocalPeers(KeyClient& keys) : keys_(keys) {}
  std::vector<Descriptor> connect(const std::vector<PeerRequest>& requests,
                                  std::chrono::milliseconds timeout) override {
    return keys_.connect(requests, timeout);
  }

 private:
  KeyClient& keys_;
};

}  // namespace

std::unique_ptr<PeerConnector> local_peers(KeyClient& keys) { return std::make_unique<LocalPeers>(keys); }

}  // namespace tessera::launch
