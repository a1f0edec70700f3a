// A device that only developers verify layouts on.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tessera/collective/transports/threads/threads.hpp"

namespace tessera::cli {

struct TestDevice {
  std::string name;
  // Runs ranks with such a device each. One queue: all communicators of a device share a stream.
  std::function<collective::RunRanks(std::uint64_t seed, bool one_queue)> run_ranks;
  // What was seen on the devices since, as a table.
  std::function<std::string()> report;
};

}  // namespace tessera::cli
