#include <gmock/gmock.h>

#include "tessera/base/files/file_text.hpp"
#include "tessera/cli/testing/binary_fixture.hpp"

namespace tessera::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(Binary, PlansTheMemoryOfARunByCategory) {
  const auto outcome = tessera(cat("plan memory ", path("run.toml")));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("parameters"), HasSubstr("optimizer"), HasSubstr("at the peak"),
                                 HasSubstr("holds most in op "), HasSubstr("optimizer state of ")));
  const auto dry = tessera(cat("train ", path("run.toml"), " --dry-run"));
  EXPECT_EQ(dry.code, 0);
  EXPECT_EQ(dry.out, outcome.out);
}

TEST_F(Binary, AndComparesItWithTheMemoryOfTheMachine) {
  EXPECT_THAT(tessera(cat("plan memory ", path("run.toml"), " layout.dp=2")).out,
              AllOf(HasSubstr("all 2 ranks together would hold "), HasSubstr("; this machine has "),
                    testing::Not(HasSubstr("not enough"))));
  const auto large = tessera(cat("plan memory ", path("run.toml"),
                                 " layout.dp=4096 training.global_batch=8192 "
                                 "model.hidden=8192 model.ffn=32768"));
  EXPECT_EQ(large.code, 0);
  EXPECT_THAT(large.out, HasSubstr("of memory, which is not enough for all of them"));
  const auto json = tessera(cat("plan memory ", path("run.toml"), " layout.dp=2 --json")).out;
  EXPECT_EQ(field(json, "all_ranks_bytes"), 2 * field(json, "peak_bytes"));
  EXPECT_GT(field(json, "machine_bytes"), field(json, "all_ranks_bytes"));
}

TEST_F(Binary, ARunIsPredictedToHoldWhatItHolds) {
  const auto planned = tessera(cat("plan memory ", path("run.toml"), " --json"));
  ASSERT_EQ(planned.code, 0) << planned.out;
  const auto trained = tessera(cat("train ", path("run.toml"), " --json --out ", path("out")));
  ASSERT_EQ(trained.code, 0) << trained.out;
  EXPECT_NEAR(field(planned.out, "peak_bytes") / field(trained.out, "peak_bytes"), 1, 0.05);
}

TEST_F(Binary, ALayoutAboveTheLimitIsRefusedBeforeAnythingStarts) {
  for (const char* command : {"plan memory ", "train "}) {
    const auto outcome =
        tessera(cat(command, path("run.toml"), " layout.memory_limit_mib=1 model.hidden=128"));
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("layout.memory_limit_mib = 1: rank 0 would hold "));
  }
}

TEST_F(Binary, DrawsTheMemoryOfARun) {
  const auto outcome = tessera(cat("draw --memory ", path("run.toml"), " -o ", path("m.svg"), " --json"));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("\"peak_bytes\": "));
  EXPECT_THAT(file_text(path("m.svg")), HasSubstr(": tapes, up to "));
  EXPECT_EQ(tessera("draw --memory --schedule 1f1b").code, 2);
}

}  // namespace
}  // namespace tessera::cli
