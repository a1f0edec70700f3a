#include "tessera/job/warnings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Warnings, AreGivenForWhatIsHardlyMeant) {
  spec::Run run;
  EXPECT_THAT(warnings_of(run, 1), IsEmpty());
  run.training.steps = 9;
  EXPECT_THAT(warnings_of(run, 1),
              ElementsAre("training.warmup_steps = 10 is above training.steps = 9: the learning rate "
                          "never reaches training.learning_rate"));
  run = {};
  run.layout.dp_replicate = 4;
  run.cluster.devices = 8;
  EXPECT_THAT(warnings_of(run, 2), ElementsAre(HasSubstr("cluster.devices = 8, and the layout has 4 ranks"),
                                               HasSubstr("4 ranks share 2 cores")));
  run.cluster.devices = 4;
  EXPECT_THAT(warnings_of(run, 0), IsEmpty());
}

TEST(Warnings, AreGivenForRestartsThatCanNotHelp) {
  spec::Run run;
  run.cluster.restarts = 3;
  EXPECT_THAT(warnings_of(run, 0), IsEmpty());
  EXPECT_THAT(
      warnings_of(run, 0, "torchrun"),
      ElementsAre("cluster.restarts = 3 has no effect: torchrun has started the ranks, and only it can "
                  "start them again"));
  run.checkpoint.every = 0;
  run.checkpoint.every_minutes = 0;
  EXPECT_THAT(warnings_of(run, 0), ElementsAre(HasSubstr("cluster.restarts = 3, and nothing is saved")));
}

}  // namespace
}  // namespace tessera::job
