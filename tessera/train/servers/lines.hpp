// What the ranks of a run with servers say to each other besides weights and gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/collective/group.hpp"
#include "tessera/train/servers/team.hpp"

namespace tessera::train {

// The connections that carry no weights: of the first rank of each worker with the first server, in which the
// worker is member 0; of the ranks of a worker; and of the servers.
struct Lines {
  std::vector<collective::Group> to_server;  // of a server: by worker; empty where this rank is not the first
  collective::Group team;                    // ranks of this worker, or the servers
};

Lines lines_of(const collective::Communicator& all, const Team& team);

void send_number(const collective::Group& group, std::int64_t number, int to);
std::int64_t receive_number(const collective::Group& group, int from);
// Everyone has the first member's.
std::vector<std::int64_t> numbers_of_first(const collective::Group& group, std::vector<std::int64_t> numbers);
double most_of(const collective::Group& group, double value);

}  // namespace tessera::train
