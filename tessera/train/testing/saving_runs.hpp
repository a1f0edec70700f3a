// Runs for tests of checkpoints: some steps, a checkpoint, and more steps from it, in a folder that goes with
// the test.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "tessera/train/resume.hpp"
#include "tessera/train/saver.hpp"
#include "tessera/train/testing/small_runs.hpp"

namespace tessera::train {

class SavingRuns : public ::testing::Test {
 protected:
  SavingRuns() { std::filesystem::remove_all(folder_); }
  ~SavingRuns() override { std::filesystem::remove_all(folder_); }

  // Losses of `steps` more steps from the newest checkpoint if there is one, or from `from`; the last is
  // saved.
  std::vector<double> go_on(spec::Run run, int steps, const std::string& from = "",
                            const Accepted& accepted = {}) const {
    run.checkpoint.every = 1000;
    std::vector<double> out;
    collective::run_ranks(
        static_cast<int>(run.layout.ranks()), [&](const collective::Communicator& communicator) {
          const int rank = communicator.rank();
          Session session(session_plan(run), communicator, random_source(run.model));
          const Resumed resumed =
              resume(session, run, {.folder = folder_, .from = from, .rank = rank, .accepted = accepted});
          Saver saver(run, session,
                      {.folder = folder_,
                       .rank = rank,
                       .num_ranks = communicator.size(),
                       .saved_step = resumed.step});
          for (int i = 0; i < steps; ++i) {
            const auto report = session.step();
            if (rank == 0) out.push_back(report.loss);
          }
          saver.finish(session.progress().step);
        });
    return out;
  }

  // Three steps on `a` and three on `b` against six on `b`.
  void expect_goes_on(const spec::Run& a, const spec::Run& b, double tolerance) {
    std::filesystem::remove_all(folder_);
    auto found = go_on(a, 3);
    const auto rest = go_on(b, 3);
    found.insert(found.end(), rest.begin(), rest.end());
    const auto expected = losses(b, 6);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_LE(std::abs(found[i] - expected[i]), tolerance * expected[i]) << "step " << i + 1;
  }

  std::string folder_ = cat(::testing::TempDir(), "saving-runs-", ::getpid());
};

}  // namespace tessera::train
