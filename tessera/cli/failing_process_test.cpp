// Does a job fail well? One message says who, where and what to do; the exit code says the kind; nothing is left.
#include <gmock/gmock.h>

#include "tessera/base/error.hpp"
#include "tessera/cli/binary_fixture.hpp"
#include "tessera/metrics/trace.hpp"

namespace tessera::cli {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class Failing : public Binary {
 protected:
  std::string train(const std::string& more) const {
    return cat("train ", path("run.toml"), " --out ", path("out"), " ", more);
  }
  // Words of a shell: starts it as $launcher, and goes on when a step was made or the job has ended.
  std::string started(const std::string& more) const {
    return cat(binary(), " ", train(more), " & launcher=$!; while [ ! -s ", path("out"),
               "/metrics.jsonl ] && kill -0 $launcher; do sleep 0.05; done; ");
  }
};

TEST_F(Failing, AMissingFileIsToldOnceWithItsNameByAllRanks) {
  const auto outcome = tessera(train("--procs 3 data.path=/no/such/file"));
  EXPECT_EQ(outcome.code, kExitUserError);
  EXPECT_EQ(count_of(outcome.out, "/no/such/file"), 1u) << outcome.out;
  EXPECT_EQ(count_of(outcome.out, "tessera: rank "), 1u) << outcome.out;
}

TEST_F(Failing, MemoryThatRunsOutIsTheUsersToMend) {
  // Enough address space for LibTorch, too little for the logits.
  const auto outcome = shell(cat("prlimit --as=6442450944 ", binary(), " ",
                                 train("--procs 2 training.global_batch=100000 layout.micro_batch=50000")));
  EXPECT_EQ(outcome.code, kExitUserError) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("out of memory"));
  EXPECT_THAT(outcome.out, HasSubstr("layout.micro_batch"));
  EXPECT_THAT(outcome.out, ContainsRegex("rank [01] failed first .*in op [0-9]+ "));
}

TEST_F(Failing, AKilledRankEndsTheJobWithItsNameAndWhereItWas) {
  const auto outcome = shell(cat(started("--procs 3 training.steps=1000000"),
                                 "kill -9 $(pgrep -P $launcher | sed -n 2p); wait $launcher"));
  EXPECT_EQ(outcome.code, kExitPeerLost);
  EXPECT_THAT(outcome.out,
              ContainsRegex("rank 1 failed first \\(signal 9 \\(Killed\\), .* of step [0-9]+ for"));
  EXPECT_THAT(outcome.out, ContainsRegex("ranks? .*(0|2).* w(as|ere) "));
  EXPECT_EQ(count_of(outcome.out, "failed first"), 1u) << outcome.out;
}

TEST_F(Failing, AStoppedRankIsAHangAfterTheTimeout) {
  const auto outcome = shell(cat(started("--procs 3 training.steps=1000000 cluster.timeout_seconds=1.5"),
                                 "kill -STOP $(pgrep -P $launcher | sed -n 3p); wait $launcher"));
  EXPECT_EQ(outcome.code, kExitPeerLost);
  EXPECT_THAT(outcome.out, HasSubstr("no progress for 1.5 s: rank 2 is silent for"));
  EXPECT_THAT(outcome.out, HasSubstr("was stopped by a signal or a debugger"));
}

TEST_F(Failing, AStageThatDiesOrStopsIsNamedAsAnyRankIs) {
  const std::string pipeline =
      "layout.pp=3 layout.schedule=zb-v model.layers=4 training.steps=1000000 cluster.timeout_seconds=1.5";
  const auto killed =
      shell(cat(started(pipeline), "kill -9 $(pgrep -P $launcher | sed -n 2p); wait $launcher"));
  EXPECT_EQ(killed.code, kExitPeerLost);
  EXPECT_THAT(killed.out,
              ContainsRegex("rank 1 failed first \\(signal 9 \\(Killed\\), .* of step [0-9]+ for"));
  std::filesystem::remove_all(folder_ / "out");
  const auto stopped =
      shell(cat(started(pipeline), "kill -STOP $(pgrep -P $launcher | sed -n 3p); wait $launcher"));
  EXPECT_EQ(stopped.code, kExitPeerLost);
  EXPECT_THAT(stopped.out, HasSubstr("no progress for 1.5 s: rank 2 is silent for"));
}

// The last stage has one unit: it waits for the first one far longer than the time-out, while that gets on.
TEST_F(Failing, AStageMayWaitForLongWhileAnotherGetsOn) {
  const auto outcome = tessera(train(
      "layout.pp=2 layout.stages=25,1 model.layers=24 model.hidden=256 model.ffn=768 model.sequence=256 "
      "layout.micro_batch=4 training.steps=2 training.global_batch=8 cluster.timeout_seconds=0.6 "
      "cluster.peak_tflops=1 --trace " +
      path("trace.json")));
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  double longest = 0;
  for (const auto& event : metrics::read_trace(path("trace.json")))
    if (event.process == 1 && event.row != "compute") longest = std::max(longest, event.duration_seconds);
  EXPECT_GT(longest, 0.7) << "or this test shows nothing";
}

TEST_F(Failing, AnInterruptEndsTheRunAfterAStepWithASummary) {
  for (const char* procs : {"--procs 2", "--procs 1"}) {
    std::filesystem::remove_all(folder_ / "out");
    const auto outcome =
        shell(cat(started(cat("training.steps=1000000 ", procs)), "kill -INT $launcher; wait $launcher"));
    EXPECT_EQ(outcome.code, 130) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("stopping after this step"));
    EXPECT_THAT(outcome.out, HasSubstr(cat("trained ", losses().size(), " steps")));
    EXPECT_THAT(outcome.out, Not(HasSubstr("failed")));
  }
}

}  // namespace
}  // namespace tessera::cli
