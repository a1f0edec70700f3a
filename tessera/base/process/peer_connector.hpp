// How a rank gets connections to other ranks: from whoever has brought the ranks of the job together.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/base/files/descriptor.hpp"

namespace tessera {

struct PeerRequest {
  int peer = 0;      // the other rank
  std::string name;  // both ranks ask by the same name, each once
};

class PeerConnector {
 public:
  virtual ~PeerConnector() = default;
  // A connected stream socket for each request, in their order. Its other end is with that rank of this job
  // and with nobody else: a stranger that tries to take the place is refused, and the rank is waited for.
  // Throws PeerLost when a rank has not asked for its end within `timeout`.
  virtual std::vector<Descriptor> connect(const std::vector<PeerRequest>& requests,
                                          std::chrono::milliseconds timeout) = 0;
};

// For ranks that all live in this process. May be called by many threads at once.
class MemoryConnector final : public PeerConnector {
 public:
  std::vector<Descriptor> connect(const std::vector<PeerRequest>& requests,
                                  std::chrono::milliseconds timeout) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Descriptor> awaited_;  // by name: the end that nobody has taken yet
};

}  // namespace tessera
