// Is every input that can't be used refused with a sentence? Files of another kind, files that change under a
// run, variables that a stranger set.
#include <gmock/gmock.h>

#include "tessera/base/error.hpp"
#include "tessera/cli/testing/binary_fixture.hpp"

namespace tessera::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Inputs : public Binary {
 protected:
  std::string train(const std::string& more) const {
    return cat("train ", path("run.toml"), " --out ", path("out"), " ", more);
  }
};

TEST_F(Inputs, ARunFileOfManyDotsIsRefusedByItsDepth) {
  std::string parts = "a";
  while (parts.size() < 400'000) parts += ".a";
  std::ofstream(folder_ / "deep.toml") << parts << " = 1\n";
  const auto outcome = tessera(cat("train ", path("deep.toml")));
  EXPECT_EQ(outcome.code, kExitUserError);
  EXPECT_THAT(outcome.out, HasSubstr("deep.toml:1: is nested deeper than a run file can be"));
}

// Both gigabytes would be reached by a plan of sixteen million micro-batches.
TEST_F(Inputs, AStepOfTooManyOpsIsRefusedWithinBounds) {
  const auto outcome =
      shell(cat("ulimit -d 2097152; ", binary(), " ", train("training.global_batch=16777216")));
  EXPECT_EQ(outcome.code, kExitUserError);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("training.global_batch = 16777216 makes 8388608 micro-batches"),
                                 HasSubstr("write layout.micro_batch = ")));
}

TEST_F(Inputs, AVariableOfOurLauncherThatSomebodyElseSetIsNamed) {
  const auto store = shell(cat("TESSERA_STORE=fd:0 ", binary(), " ", train("")));
  EXPECT_EQ(store.code, kExitUserError);
  EXPECT_THAT(
      store.out,
      HasSubstr("TESSERA_STORE=fd:0 is for ranks that tessera starts itself, and TESSERA_WORLD_SIZE is "
                "not set. Unset TESSERA_STORE"));
  const auto rank = shell(cat("TESSERA_STORE=fd:0 TESSERA_WORLD_SIZE=2 TESSERA_RANK=2x ", binary(), " ",
                              train("layout.dp_replicate=2")));
  EXPECT_EQ(rank.code, kExitUserError);
  EXPECT_THAT(rank.out, HasSubstr("TESSERA_RANK is '2x'"));
  const auto board = shell(cat("TESSERA_STORE=fd:0 TESSERA_WORLD_SIZE=2 TESSERA_RANK=1 ", binary(), " ",
                               train("layout.dp_replicate=2")));
  EXPECT_EQ(board.code, kExitUserError);
  EXPECT_THAT(board.out, HasSubstr("TESSERA_BOARD is not set"));
}

// A few seconds: two jobs, on one rank and on two.
TEST_F(Inputs, ACorpusThatIsCutOffUnderARunIsTheUsersToMend) {
  for (const char* procs : {"--procs 1", "--procs 2"}) {
    std::filesystem::remove_all(folder_ / "out");
    const auto outcome = shell(cat("head -c 65536 corpus/kjv.txt > ", path("text"), "; ", binary(), " ",
                                   train(cat("training.steps=1000000 data.path=", path("text"), " ", procs)),
                                   " & launcher=$!; while [ ! -s ", path("out"),
                                   "/metrics.jsonl ] && kill -0 $launcher; do sleep 0.05; done; : > ",
                                   path("text"), "; wait $launcher"));
    EXPECT_EQ(outcome.code, kExitUserError) << outcome.out;
    EXPECT_THAT(outcome.out,
                AllOf(HasSubstr(cat("cannot read '", path("text"), "' at byte ")),
                      HasSubstr("it had 65536 bytes when it was opened"), Not(HasSubstr("bug"))));
  }
}

}  // namespace
}  // namespace tessera::cli
