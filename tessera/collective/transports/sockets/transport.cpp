#include <mutex>
#include <thread>

#include "tessera/base/clock.hpp"
#include "tessera/collective/transports/sockets/sockets.hpp"

namespace tessera::collective {
namespace {

std::unique_ptr<Communicator> connect_sockets(const Meeting& meeting, const Seat& seat) {
  return std::make_unique<SocketCommunicator>(meeting.peers, seat);
}

// The two ranks are threads here, which makes no difference to their sockets.
Trial try_sockets() {
  const double begin = now_seconds();
  MemoryConnector connector;
  double sums[2] = {};
  std::mutex mutex;
  std::string failure;  // the first: the other rank's tells only that its peer did not come
  const auto rank = [&](int self) {
    try {
      const SocketCommunicator communicator(
          connector, {.rank = self, .size = 2, .timeout = std::chrono::milliseconds(1500)});
      sums[self] = sum_of_two(communicator);
    } catch (const std::exception& error) {
      const std::scoped_lock lock(mutex);
      if (failure.empty()) failure = error.what();
    }
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  return judge_sum(
      sums[0] == sums[1] ? sums[0] : 0, failure, begin,
      "ranks as processes can't talk: look at the limit of open files (ulimit -n); ranks as threads "
      "(cluster.transport=threads) need no sockets");
}

}  // namespace

Transport sockets_transport() { return {.connect = connect_sockets, .try_out = try_sockets}; }

}  // namespace tessera::collective
