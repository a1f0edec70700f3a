// Saves by time and when asked, of jobs that run.
#include <gmock/gmock.h>

#include <set>

#include "tessera/base/error.hpp"
#include "tessera/cli/testing/binary_fixture.hpp"

namespace tessera::cli {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class Saving : public Binary {
 protected:
  // Words of a shell: a job as $job that trains until it is stopped, once it has made a step.
  std::string started(const std::string& more) const {
    return cat(binary(), " train ", path("run.toml"), " --out ", path("out"), " training.steps=1000000 ",
               more, " > ", path("log"), " 2>&1 & job=$!; while [ ! -s ", path("out"),
               "/metrics.jsonl ] && kill -0 $job; do sleep 0.05; done; ");
  }
  std::size_t num_checkpoints() const {
    std::size_t count = 0;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(path("out/checkpoints"), none))
      count += entry.path().filename().string().size() == std::string("step-00000001").size();
    return count;
  }
};

TEST_F(Saving, AJobSavesWhenItIsAskedAlthoughItSavesNothingElse) {
  for (const char* procs : {"--procs 2", "--procs 1"}) {
    std::filesystem::remove_all(path("out"));
    const auto asked = shell(cat(started(procs), binary(), " save ", path("out"), "; echo code $?; ",
                                 binary(), " save ", path("out"), " --json; kill -INT $job; wait $job"));
    EXPECT_THAT(asked.out,
                ContainsRegex(cat("saved step [0-9]+ in ", path("out"), "/checkpoints/step-[0-9]+\ncode 0")));
    EXPECT_GT(field(asked.out, "step"), 0);
    EXPECT_GE(num_checkpoints(), 1u);
    EXPECT_FALSE(std::filesystem::exists(path("out/save.request")));
  }
}

TEST_F(Saving, WhereNoJobRunsItSaysSo) {
  EXPECT_EQ(tessera(cat("train ", path("run.toml"), " --out ", path("out"))).code, 0);
  const auto asked = tessera(cat("save ", path("out")));
  EXPECT_EQ(asked.code, kExitUserError);
  EXPECT_THAT(asked.out, HasSubstr(cat("no job runs in '", path("out"), "'")));
  EXPECT_EQ(tessera("save /no/such/run").code, kExitUserError);
}

TEST_F(Saving, ByTimeAndTheFirstScreenSaysWhenNothingIsSaved) {
  const auto timed = shell(cat(started("--procs 2 checkpoint.every_minutes=0.01 checkpoint.keep_last=0"),
                               "sleep 3; kill -TERM $job; wait $job; cat ", path("log")));
  EXPECT_EQ(timed.code, 0) << timed.out;  // of cat
  EXPECT_GE(num_checkpoints(), 2u) << timed.out;
  std::filesystem::remove_all(path("out"));
  const auto unsaved =
      tessera(cat("train ", path("run.toml"), " training.warmup_steps=2 --out ", path("out")));
  EXPECT_THAT(unsaved.out.substr(0, unsaved.out.find("step 1/")),
              HasSubstr("nothing is saved (checkpoint.every and"));
  EXPECT_EQ(num_checkpoints(), 0u);
}

TEST_F(Saving, ByDefaultTheLastStepIsSavedAndARunThatIsCompleteSaysSo) {
  const std::string run =
      cat("train ", path("run.toml"), " --out ", path("out"), " checkpoint.every_minutes=30");
  EXPECT_EQ(tessera(run).code, 0);
  EXPECT_EQ(num_checkpoints(), 1u);
  const auto again = tessera(run);
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.out, HasSubstr("nothing is left to train: 6 steps were made and are saved"));
  EXPECT_EQ(losses().size(), 6u) << "the metrics of the run stay";
}

}  // namespace
}  // namespace tessera::cli
