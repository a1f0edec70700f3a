#include "tessera/collective/transports/nccl/gpu_of_rank.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::collective {

int gpu_of_rank(const Seat& seat, int num_visible) {
  if (num_visible == 1) return 0;
  if (seat.local_rank < num_visible) return seat.local_rank;
  throw UserError(cat("rank ", seat.rank, " is number ", seat.local_rank,
                      " on its host, counted from 0, but its process sees ", num_visible,
                      " GPUs. Start at most one rank per GPU, or use cluster.transport = \"sockets\"."));
}

}  // namespace tessera::collective
