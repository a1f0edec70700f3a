// Does a job fail well? One message says who, where and what to do; the exit code says the kind; nothing is
// left.
#include <gmock/gmock.h>

#include "tessera/base/error.hpp"
#include "tessera/cli/testing/binary_fixture.hpp"
#include "tessera/metrics/trace/trace.hpp"

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

TEST_F(Failing, WhatAllRanksFindIsToldOnce) {
  const auto missing = tessera(train("--procs 3 data.path=/no/such/file"));
  EXPECT_EQ(missing.code, kExitUserError);
  EXPECT_EQ(count_of(missing.out, "/no/such/file"), 1u) << missing.out;
  EXPECT_EQ(count_of(missing.out, "tessera: rank "), 0u) << "no rank has started: " << missing.out;
  EXPECT_EQ(tessera(train("checkpoint.every=1 training.steps=1")).code, 0);
  const auto outcome = tessera(train("--procs 3 model.hidden=128"));
  EXPECT_EQ(outcome.code, kExitUserError);
  EXPECT_EQ(count_of(outcome.out, "model.hidden = 128, the checkpoint has 64"), 1u) << outcome.out;
  EXPECT_EQ(count_of(outcome.out, "tessera: rank "), 1u) << outcome.out;
}

TEST_F(Failing, MemoryThatRunsOutIsTheUsersToMend) {
  const std::string large = train("training.global_batch=8000 layout.micro_batch=4000 ");
  const auto refused = shell(cat("prlimit --as=2000000000 ", binary(), " ", large, " --procs 2"));
  EXPECT_EQ(refused.code, kExitUserError) << refused.out;
  EXPECT_THAT(refused.out, HasSubstr("address space: a rank needs "));
  EXPECT_THAT(refused.out, Not(HasSubstr("failed first"))) << "no rank has started";
  // The host is looked at by rank 0, which has no such limit: enough for LibTorch, too little for the logits.
  const std::string job = cat("WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=", 1000 + getpid() % 60000);
  const auto outcome =
      shell(cat("RANK=0 ", job, " ", binary(), " ", large, " & RANK=1 ", job, " prlimit --as=2000000000 ",
                binary(), " ", large, "; code=$?; wait; exit $code"));
  EXPECT_EQ(outcome.code, kExitUserError) << outcome.out;
  EXPECT_THAT(outcome.out,
              ContainsRegex("out of memory: it tried to allocate [0-9]+ bytes beside the [0-9]+ that"));
  EXPECT_THAT(outcome.out, HasSubstr("layout.micro_batch"));
  EXPECT_THAT(outcome.out, ContainsRegex("rank 1 failed first .*in op [0-9]+ "));
}

TEST_F(Failing, AKilledRankEndsTheJobWithItsNameAndWhereItWas) {
  const auto outcome = shell(cat(started("--procs 3 training.steps=1000000"),
                                 "kill -9 $(pgrep -P $launcher | sed -n 2p); wait $launcher"));
  EXPECT_EQ(outcome.code, kExitPeerLost);
  EXPECT_THAT(outcome.out,
              ContainsRegex("rank 1 failed first \\(signal 9 \\(Killed\\), .* of step [0-9]+ (for|since)"));
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
              ContainsRegex("rank 1 failed first \\(signal 9 \\(Killed\\), .* of step [0-9]+ (for|since)"));
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
  for (const auto& event : metrics::read_trace(path("trace.json")).events)
    if (event.process == 1 && event.row != "compute") longest = std::max(longest, event.duration_seconds);
  EXPECT_GT(longest, 0.7) << "or this test shows nothing";
}

// The newest checkpoint; every step that metrics.jsonl knows is in it.
class Stopped : public Failing {
 protected:
  void expect_nothing_lost(const Outcome& outcome, int code) const {
    EXPECT_EQ(outcome.code, code) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr(cat("trained ", losses().size(), " steps")));
    EXPECT_THAT(outcome.out, HasSubstr(cat("saved the checkpoint of step ", losses().size(), " in")));
    EXPECT_THAT(outcome.out, Not(HasSubstr("failed")));
  }
};

TEST_F(Stopped, ASignalToTheLauncherToARankOrToAllEndsTheRunAfterAStepThatIsSaved) {
  const std::string to_launcher = "$launcher", to_rank = "$(pgrep -P $launcher | sed -n 2p)",
                    to_all = "$(pgrep -P $launcher) $launcher";
  const std::tuple<int, std::string, std::string> cases[] = {
      {15, to_all, "--procs 2"},
      {1, to_rank, "--procs 3"},
      {10, to_launcher, "--procs 2"},
      {2, to_all, "--procs 2"},
      {15, to_rank, "--procs 2"},
      {10, to_launcher, "--procs 1"},
      {1, to_launcher, "cluster.transport=threads layout.dp_replicate=2"}};
  for (const auto& [signal, whom, layout] : cases) {
    SCOPED_TRACE(cat("signal ", signal, " to ", whom, ", ", layout));
    std::filesystem::remove_all(folder_ / "out");
    expect_nothing_lost(shell(cat(started(cat("training.steps=1000000 checkpoint.every_minutes=30 ", layout)),
                                  "kill -", signal, " ", whom, "; wait $launcher")),
                        128 + signal);
  }
}

TEST_F(Stopped, ASecondSignalEndsTheJobAtOnceAndAStepThatIsTooLongAtTheGrace) {
  // Steps of many seconds.
  const std::string slow =
      "model.layers=8 model.hidden=256 model.ffn=768 training.global_batch=4096 layout.micro_batch=16 "
      "cluster.peak_tflops=1 ";
  const auto begun = [&](const std::string& more) {
    return cat(binary(), " ", train(slow + more), " & launcher=$!; while [ ! -e ", path("out"),
               "/metrics.jsonl ]; do sleep 0.05; done; sleep 0.5; ");
  };
  for (const char* procs : {"--procs 2", "--procs 1"}) {
    std::filesystem::remove_all(folder_ / "out");
    const auto twice = shell(cat(begun(procs), "kill -TERM $launcher; sleep 1.2; kill -TERM $launcher; ",
                                 "s=$(date +%s%N); wait $launcher; c=$?; echo took $((($(date +%s%N) - s) / ",
                                 "1000000)) ms; exit $c"));
    EXPECT_EQ(twice.code, 143) << twice.out;
    EXPECT_LT(std::atof(twice.out.substr(twice.out.find("took ") + 5).c_str()), 2000) << twice.out;
    std::filesystem::remove_all(folder_ / "out");
    const auto graced =
        shell(cat(begun(cat("cluster.grace_seconds=0.7 ", procs)), "kill -HUP $launcher; wait $launcher"));
    EXPECT_EQ(graced.code, 129) << graced.out;
    EXPECT_THAT(graced.out, HasSubstr("did not stop within 0.7 s of signal 1 (Hangup)"));
  }
}

TEST_F(Stopped, NohupIsHonoured) {
  const auto outcome = shell(cat("trap '' HUP; ", started("--procs 2 training.steps=40"),
                                 "kill -HUP $launcher $(pgrep -P $launcher); wait $launcher"));
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(losses().size(), 40u);
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
