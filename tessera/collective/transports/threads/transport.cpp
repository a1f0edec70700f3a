#include "tessera/base/clock.hpp"
#include "tessera/collective/transports/threads/threads.hpp"

namespace tessera::collective {
namespace {

Trial try_threads() {
  const double begin = now_seconds();
  double sum = 0;
  run_ranks(2, [&](const Communicator& communicator) {
    const double mine = sum_of_two(communicator);
    if (communicator.rank() == 0) sum = mine;
  });
  return judge_sum(sum, "", begin, "");
}

}  // namespace

Transport threads_transport() { return {.try_out = try_threads}; }

}  // namespace tessera::collective
