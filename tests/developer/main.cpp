// The binary for developers: that of the users, whose `verify` can also run on asynchronous devices.
#include <memory>

#include "tessera/base/text.hpp"
#include "tessera/cli/command_line.hpp"
#include "tessera/testing/async_device/ranks.hpp"

namespace {

using namespace tessera;

// What the devices did.
struct Seen {
  std::int64_t runs = 0;
  async_device::Findings last;
};

std::string report(const Seen& seen) {
  std::vector<std::vector<std::string>> rows = {
      {"device", "launches", "host waits", "pageable copies", "most bytes held"}};
  for (std::size_t rank = 0; rank < seen.last.counts.size(); ++rank) {
    const async_device::Counts& counts = seen.last.counts[rank];
    std::int64_t launches = 0;
    std::vector<std::string> waits;
    for (const auto& [op, count] : counts.launches) launches += count;
    for (const auto& [why, count] : counts.host_waits) waits.push_back(cat(count, " ", why));
    rows.push_back({cat(rank), cat(launches), join(waits, ", "), cat(counts.pageable_copies),
                    cat(counts.most_bytes_held)});
  }
  return cat(seen.runs, " run(s) on asynchronous devices without a race or an early free; of the last:\n",
             table(rows));
}

}  // namespace

int main(int argc, char** argv) {
  const auto seen = std::make_shared<Seen>();
  const auto run_ranks = [seen](std::uint64_t seed, bool one_queue) -> collective::RunRanks {
    return [seen, seed, one_queue](int num_ranks, const auto& body) {
      async_device::run_ranks({.pace = {.seed = seed}, .one_queue = one_queue}, num_ranks, body, &seen->last);
      ++seen->runs;
    };
  };
  return cli::run(argc, argv, cli::TestDevice{"async", run_ranks, [seen] { return report(*seen); }});
}
