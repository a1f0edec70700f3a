#include "tessera/cli/commands/test_device.hpp"

#include "tessera/cli/commands/commands.hpp"

namespace tessera::cli {

collective::RunRanks DeviceOptions::run_ranks(std::uint64_t seed) const {
  return name.empty() ? collective::RunRanks(collective::run_ranks) : known->run_ranks(seed, one_queue);
}

std::string DeviceOptions::report() const { return name.empty() ? "" : known->report(); }

}  // namespace tessera::cli
