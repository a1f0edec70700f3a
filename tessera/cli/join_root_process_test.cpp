// Jobs under Slurm and on two hosts, and strangers who try to get in: the daemons and network namespaces need
// root.
#include <gmock/gmock.h>

#include <map>

#include "tessera/cli/testing/join_fixture.hpp"
#include "tessera/metrics/trace/trace.hpp"

namespace tessera::cli {
namespace {

using testing::HasSubstr;

TEST_F(Join, SlurmsRanksTrainAsOurOwn) {
  expect_as_our_own("tests/slurm/with-slurm srun -n 2 " + train("joined"));
}

// The steady clock of the second host is an hour ahead, as if it had been started earlier; their trace has
// one clock.
TEST_F(Join, RanksOnTwoHostsTrainAsOnOneAndAreTracedOnOneClock) {
  const std::string key = (folder_ / "job.key").string(), trace = (folder_ / "trace.json").string();
  std::ofstream(folder_ / "both.sh") << "(umask 077; head -c 32 /dev/urandom > " << key << ")\n"
                                     << R"(start() {
  .venv/bin/torchrun --nnodes 2 --node-rank $1 --nproc-per-node 1 \
    --master-addr $ADDRESS_A --master-port 29500 \
    --no-python )"
                                     << train("joined",
                                              cat("cluster.store=$ADDRESS_A:29400 cluster.key_file=", key,
                                                  " --trace ", trace))
                                     << R"(
}
export -f start
$HOST_B unshare --time --monotonic 3600 --fork bash -c 'start 1' &
$HOST_A bash -c 'start 0'
wait $!
)";
  expect_as_our_own(cat("tests/hosts/with-two-hosts bash ", folder_ / "both.sh"));
  std::map<std::int64_t, std::pair<double, double>> spans;  // of each rank
  for (const auto& event : metrics::read_trace(trace).events) {
    auto& [begin, end] = spans.try_emplace(event.process, event.start_seconds, 0).first->second;
    begin = std::min(begin, event.start_seconds);
    end = std::max(end, event.start_seconds + event.duration_seconds);
  }
  ASSERT_EQ(spans.size(), 2u);
  // Their last ops end together: the sum of a step's numbers.
  EXPECT_NEAR(spans[0].second, spans[1].second, 0.2);
  EXPECT_NEAR(spans[0].first, spans[1].first, 1);
}

TEST_F(Join, AnAttackWithoutTheKeyChangesNothing) {
  const auto outcome =
      shell(cat("TESSERA_BINARY=", binary(),
                " tests/hosts/with-two-hosts tests/hosts/attack --steps 60 --pairs 1 --period 1 --json"));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("\"losses_equal\": true"));
  EXPECT_GT(field(outcome.out, "connections_tried"), 100);
  EXPECT_GT(field(outcome.out, "connections_made"), 10);  // before all ranks had come
  // Not by the clock, which tells how busy the machine is. Generous: docs/launching.md has the true figure.
  EXPECT_LT(field(outcome.out, "processor_ratio_in_a_pair_median"), 1.5) << outcome.out;
}

// Costs 10 s on an idle machine; the full trial is in .ci/long.
TEST_F(Join, StrangersOnTheMachineAndTheNetworkGetNoPlace) {
  const auto outcome = shell(cat("tests/hosts/strangers --jobs 2 --binary ", binary()));
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(count_of(outcome.out, "\"ended_badly\": 0"), 2u) << outcome.out;
  EXPECT_EQ(count_of(outcome.out, "\"other_losses\": 0"), 2u) << outcome.out;
  EXPECT_EQ(count_of(outcome.out, "\"connections_sent_tensors\": 0"), 2u) << outcome.out;
}

}  // namespace
}  // namespace tessera::cli
