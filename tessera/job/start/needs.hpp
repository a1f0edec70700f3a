// Memory, disk and open files that the ranks of a run take from one host. Predicted from shapes alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/spec/spec.hpp"

namespace tessera::job {

struct Needs {
  int num_ranks = 0;  // on this host
  std::int64_t memory_bytes =
      0;  // of all ranks here: tensors, what they offload to memory, copies that are saved
  std::int64_t process_bytes = 0;     // the same of the process that holds most
  std::int64_t offload_bytes = 0;     // of all ranks here, in layout.offload_folder
  std::int64_t checkpoint_bytes = 0;  // of one checkpoint, which all ranks write together
  std::int64_t open_files = 0;        // of the rank that needs most
  double step_flops = 0;              // of all ranks here
};

// The needs of ranks first to first + num_ranks - 1.
Needs needs_of(const spec::Run& run, int first, int num_ranks);

// Checkpoints that come to lie on the disk in addition to those of the steps `existing`, from the newest of
// them to the end of the run: the kept ones and the one that is being written. Saves by the clock count as
// one.
std::int64_t num_new_checkpoints(const spec::Checkpoint& rule, std::int64_t steps,
                                 std::vector<std::int64_t> existing);

}  // namespace tessera::job
