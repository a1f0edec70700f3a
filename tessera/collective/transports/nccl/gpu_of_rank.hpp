// Chooses the GPU of a rank.
#pragma once

#include "tessera/collective/transport.hpp"

namespace tessera::collective {

// The index of the rank's GPU among the `num_visible` ones of its process. If the process sees one GPU alone,
// as under Slurm's --gpus-per-task=1, it takes that one; otherwise the local rank counts. Throws UserError if
// there are fewer GPUs than local ranks.
int gpu_of_rank(const Seat& seat, int num_visible);

}  // namespace tessera::collective
