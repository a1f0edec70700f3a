#include "tessera/job/connect.hpp"

#include <chrono>

#include "tessera/collective/nccl/nccl.hpp"
#include "tessera/collective/sockets/sockets.hpp"

namespace tessera::job {

std::unique_ptr<collective::Communicator> connect(const spec::Run& run, KeyStore& keys, PeerConnector& peers,
                                                  const Seat& seat) {
  // The launcher, or rank 0 of a joined job, notices first and knows more; this ends a rank whose watcher is
  // stuck. A single receive may rightly last much longer than all ranks may stand still: a pipeline's first
  // gradient.
  constexpr double kWaitsOfOneReceive = 100;
  const std::chrono::milliseconds timeout(
      static_cast<std::int64_t>(run.cluster.timeout_seconds * kWaitsOfOneReceive * 1000));
  if (run.cluster.transport == spec::Transport::nccl)
    return collective::nccl_communicator(keys, seat.rank, seat.size, {seat.local_rank, seat.prefix, timeout});
  return std::make_unique<collective::SocketCommunicator>(peers, seat.rank, seat.size,
                                                          collective::SocketOptions{seat.prefix, timeout});
}

}  // namespace tessera::job
