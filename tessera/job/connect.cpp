#include "tessera/job/connect.hpp"

#include "tessera/collective/transports/transports.hpp"

namespace tessera::job {

std::unique_ptr<collective::Communicator> connect(const spec::Run& run, const collective::Meeting& meeting,
                                                  collective::Seat seat) {
  // The launcher, or rank 0 of a joined job, notices first and knows more; this ends a rank whose watcher is
  // stuck. A single receive may rightly last much longer than all ranks may stand still: a pipeline's first
  // gradient.
  constexpr double kWaitsOfOneReceive = 100;
  seat.timeout = std::chrono::milliseconds(
      static_cast<std::int64_t>(run.cluster.timeout_seconds * kWaitsOfOneReceive * 1000));
  auto communicator = collective::transport(run.cluster.transport).connect(meeting, seat);
  if (!communicator->device().is_cpu()) {
    seat.prefix += "/host";
    communicator->set_host(collective::transport(spec::Transport::sockets).connect(meeting, seat));
  }
  return communicator;
}

}  // namespace tessera::job
