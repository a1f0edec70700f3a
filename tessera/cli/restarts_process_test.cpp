// Jobs whose ranks are killed and start again. About 2 s of processor time.
#include <gmock/gmock.h>

#include "tessera/cli/testing/binary_fixture.hpp"

namespace tessera::cli {
namespace {

using testing::HasSubstr;

class Restarting : public Binary {
 protected:
  // Words of a shell: waits until the file has that many lines with the text, or the job has ended.
  std::string wait_for(const std::string& text, const char* file, int lines = 1) const {
    return cat("until [ $(cat ", path(file), " 2> /dev/null | grep -c '", text, "') -ge ", lines,
               " ] || ! kill -0 $launcher; do sleep 0.02; done; ");
  }
};

// The file is broken as soon as the job runs. The signal comes while ranks of the second restart load.
TEST_F(Restarting, UsesTheRunFileAsItWasAndStopsOnASignalDuringARestart) {
  const std::string kill_a_rank = "kill -9 $(pgrep -P $launcher | tail -n 1); ";
  const auto outcome = shell(cat(
      binary(), " train ", path("run.toml"), " --out ", path("out"),
      " --procs 1 --json training.steps=1000000 checkpoint.every=2 cluster.restarts=2 > ", path("summary"),
      " 2> ", path("errors"), " & launcher=$!; ", wait_for("loss", "out/metrics.jsonl", 5), "echo broken > ",
      path("run.toml"), "; ", kill_a_rank, wait_for("\"restarts\": 1.0", "out/metrics.jsonl", 6), kill_a_rank,
      wait_for("restart 2", "errors"), "kill -TERM $launcher; wait $launcher; code=$?; cat ", path("errors"),
      " ", path("summary"), "; exit $code"));
  EXPECT_EQ(outcome.code, 128 + 15) << outcome.out;
  EXPECT_THAT(outcome.out,
              testing::ContainsRegex("restart 1 after rank 0: it starts again from the "
                                     "checkpoint of step [0-9]*[02468]\\. Without a newer checkpoint 1 "
                                     "more restart is allowed"));
  EXPECT_THAT(outcome.out, HasSubstr("signal 15 (Terminated): stopping after this step"));
  EXPECT_EQ(field(outcome.out, "restarts"), 2);
  EXPECT_GT(field(outcome.out, "lost_seconds"), 0);
  EXPECT_EQ(field(outcome.out, "steps"), 0) << "it was stopped before its next step";
  const auto found = losses();
  EXPECT_GE(found.size(), 4u);
}

}  // namespace
}  // namespace tessera::cli
