// Returns which rank of a job this process is, if somebody else started it, read from the environment of
// torchrun, Open MPI's mpirun and Slurm's srun, or from torch.distributed's own variables.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace tessera::launch {

using Environment = std::map<std::string, std::string>;

struct Membership {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  // among the ranks of this host
  int local_size = 1;
  int num_hosts = 1;     // 2 when they are several, but the starter does not say how many
  std::string job = {};  // equal on all ranks, another for each job of this user on a host
  int generation = 0;    // how often the job was started again
  std::string started_by = {};
  bool is_bound = false;  // the starter has given this rank cores of its own
  bool operator==(const Membership&) const = default;
};

// Whether RANK, WORLD_SIZE and MASTER_ADDR without a starter that is known make a rank. Containers have them
// in every shell, so commands that need no other rank don't wait for one.
enum class Joins { known_starters, any };

// Nothing if this process stands alone, which a job of one rank does too: it may start ranks itself. The
// innermost starter counts (torchrun or mpirun within srun). Throws UserError naming the variable that is
// malformed or missing.
std::optional<Membership> membership(const Environment& environment, Joins joins = Joins::known_starters);
// The same, with a job of one rank.
std::optional<Membership> started_as(const Environment& environment, Joins joins);

// Of this process.
Environment process_environment();

}  // namespace tessera::launch
