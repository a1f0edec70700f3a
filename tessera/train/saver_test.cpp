// Checkpoints that a run leaves when its disk refuses the last one, and when it diverges.
#include "tessera/train/saver.hpp"

#include <gmock/gmock.h>

#include <fstream>

#include "tessera/base/complaint.hpp"
#include "tessera/checkpoint/folder/folder.hpp"
#include "tessera/train/testing/saving_runs.hpp"

namespace tessera::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class SaverTest : public SavingRuns {
 protected:
  // Makes steps from the newest checkpoint, saving as the run says; returns which of them were taken.
  std::vector<bool> trained(const spec::Run& run, int steps) const {
    std::vector<bool> taken;
    collective::run_ranks(static_cast<int>(run.layout.ranks()),
                          [&](const collective::Communicator& communicator) {
                            const int rank = communicator.rank();
                            Session session(session_plan(run), communicator, random_source(run.model));
                            const Resumed resumed = resume(session, run, {.folder = folder_, .rank = rank});
                            Saver saver(run, session,
                                        {.folder = folder_,
                                         .rank = rank,
                                         .num_ranks = communicator.size(),
                                         .saved_step = resumed.step});
                            for (int i = 0; i < steps; ++i) {
                              const bool is_taken = session.step().taken;
                              if (rank == 0) taken.push_back(is_taken);
                              saver.after_step(session.progress().step);
                            }
                            saver.finish(session.progress().step);
                          });
    return taken;
  }
  std::vector<std::int64_t> saved_steps() const {
    std::vector<std::int64_t> out;
    for (const auto& each : checkpoint::step_folders(folder_)) out.push_back(each.step);
    return out;
  }
};

spec::Run saving_run(std::int64_t ranks, std::int64_t keep_last) {
  spec::Run run = small_run(1);
  run.layout.precision = spec::Precision::fp64;
  run.layout.pp = ranks;
  run.layout.micro_batch = 1;
  run.checkpoint = {.every = 1, .keep_last = keep_last};
  return run;
}

TEST_F(SaverTest, ADivergingRunKeepsTheStateFromWhichAStepWasTaken) {
  for (const std::int64_t keep_last : {1, 2}) {
    std::filesystem::remove_all(folder_);
    const spec::Run good = saving_run(2, keep_last);
    trained(good, 3);
    spec::Run diverging = good;
    diverging.training.learning_rate = 1e300;
    diverging.training.warmup_steps = 0;
    EXPECT_THAT(trained(diverging, 4), ElementsAre(true, false, false, false));
    // Step 4 was taken and ruined the weights, and 7 is the same state at the end of the run.
    auto expected = std::vector<std::int64_t>{7, 4, 3};
    if (keep_last == 2) expected.push_back(2);
    EXPECT_EQ(saved_steps(), expected) << "keep_last = " << keep_last;
    for (const std::int64_t ruined : {7, 4})
      std::filesystem::remove_all(checkpoint::step_folder(folder_, ruined).path);
    EXPECT_THAT(trained(good, 2), ElementsAre(true, true));
    EXPECT_EQ(saved_steps().size(), static_cast<std::size_t>(keep_last));
  }
}

TEST_F(SaverTest, ALastStateThatIsNotSavedIsAnErrorThatNamesTheNewestOne) {
  collective::run_ranks(2, [&](const collective::Communicator& communicator) {
    const spec::Run run = saving_run(2, 1);
    Session session(session_plan(run), communicator, random_source(run.model));
    Saver saver(run, session, {.folder = folder_, .rank = communicator.rank(), .num_ranks = 2});
    const auto finished = [&] {
      saver.finish(session.progress().step);
      return complaint_of([&] { saver.expect_saved(session.progress().step); });
    };
    session.step();
    EXPECT_EQ(finished(), "");
    EXPECT_EQ(saver.newest_text(),
              cat("The run is saved in ", checkpoint::step_folder(folder_, 1).path, "."));
    session.step();
    // A file where the folder of the next save would be made.
    if (communicator.rank() == 0) {
      std::filesystem::rename(folder_, folder_ + "-moved");
      std::ofstream(folder_) << "a file";
    }
    const std::string complaint = finished();
    EXPECT_THAT(complaint, StartsWith("the checkpoint of step 2, the last of this run, could not be saved"));
    EXPECT_THAT(complaint, HasSubstr("The newest whole checkpoint is that of step 1"));
  });
  std::filesystem::remove_all(folder_ + "-moved");
}

}  // namespace
}  // namespace tessera::train
