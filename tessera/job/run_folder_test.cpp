#include "tessera/job/run_folder.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tessera::job {
namespace {

std::string folder(const std::vector<std::string>& overrides) {
  return default_run_folder("examples/tiny.toml", overrides);
}

TEST(RunFolder, IsNamedAfterTheRunFileAndWhatASweepChanges) {
  EXPECT_EQ(folder({}), "runs/tiny");
  EXPECT_EQ(folder({"training.learning_rate=0.01"}), "runs/tiny,training.learning_rate=0.01");
  EXPECT_EQ(folder({"training.seed=2", "data.seed=3", "training.seed=1"}),
            "runs/tiny,data.seed=3,training.seed=1");
  EXPECT_EQ(folder({"training.seed=1"}), folder({"training.seed=2", "training.seed=1"}))
      << "the last value counts";
}

TEST(RunFolder, StaysTheSameForARunThatGoesOn) {
  EXPECT_EQ(folder({"training.steps=30", "layout.dp_shard=2", "layout.zero=3", "checkpoint.every=5",
                    "cluster.pin=false"}),
            "runs/tiny");
}

TEST(RunFolder, IsAnnouncedWhereTheCommandLineChangesIt) {
  const std::vector<std::string> more_steps = {"training.steps=9"}, rate = {"training.learning_rate=0.01"};
  EXPECT_EQ(folder_note("examples/tiny.toml", more_steps), "");
  EXPECT_EQ(folder_note("examples/tiny.toml", rate),
            "what the command line changes makes this another run than runs/tiny, so its folder is "
            "runs/tiny,training.learning_rate=0.01. --out runs/tiny resumes that one instead.");
}

TEST(RunFolder, StaysShortPlainAndDistinct) {
  const std::string a = folder({"data.path=/texts/a b"}), b = folder({"data.path=/texts/a_b"});
  EXPECT_TRUE(a.starts_with("runs/tiny,data.path=_texts_a_b,")) << a;
  EXPECT_NE(a, b);
  EXPECT_LT(folder({"data.path=" + std::string(500, 'x')}).size(), 120u);
}

}  // namespace
}  // namespace tessera::job
