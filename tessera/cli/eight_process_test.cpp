// Eight processes that share units: tensor, context, data and pipeline parallelism together lose as one rank
// does, and a checkpoint goes from any of them to any other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tessera/cli/testing/binary_fixture.hpp"

namespace tessera::cli {
namespace {

constexpr const char* kOneRank = "layout.micro_batch=4";
constexpr const char* kWithData = "layout.pp=2 layout.dp_shard=2 layout.tp=2 layout.zero=1";
constexpr const char* kWithContext = "layout.pp=2 layout.cp=2 layout.tp=2 layout.zero=1";

class EightProcesses : public Binary {
 protected:
  static constexpr std::size_t kSteps = 50, kSavedAfter = 25;

  // Losses of all steps; those before a checkpoint that it goes on from stay as they were.
  std::vector<double> trained(const std::string& layout) const {
    const Outcome outcome = tessera(cat("train ", path("run.toml"), " --out ", path("out"),
                                        " training.steps=", kSteps, " checkpoint.every=", kSavedAfter,
                                        " checkpoint.keep_last=0 cluster.peak_tflops=1 model.layers=3 "
                                        "model.tied_embeddings=true ",
                                        layout));
    EXPECT_EQ(outcome.code, 0) << layout << "\n" << outcome.out;
    return losses();
  }
  void begin_anew() const { std::filesystem::remove_all(path("out")); }
  void forget_the_last() const { std::filesystem::remove_all(path("out/checkpoints/step-00000050")); }

  void expect_equal(const std::vector<double>& found, const std::vector<double>& expected,
                    const std::string& what) {
    ASSERT_EQ(found.size(), kSteps) << what;
    ASSERT_EQ(expected.size(), kSteps) << what;
    for (std::size_t i = 0; i < kSteps; ++i) {
      const double error = std::abs(found[i] - expected[i]) / expected[i];
      EXPECT_LE(error, 1e-4) << what << ", step " << i + 1;
      worst_error_ = std::max(worst_error_, error);
    }
  }

  double worst_error_ = 0;  // relative
};

TEST_F(EightProcesses, LoseAsOneRankDoesForFiftyStepsAndGoOnFromEachOther) {
  const auto expected = trained(kOneRank);
  EXPECT_LT(expected.back(), expected.front() - 0.5) << "nothing was learnt: any layout would be near";
  for (const auto& [from, others] : {std::pair{kWithData, std::vector{kWithContext, kOneRank}},
                                     std::pair{kWithContext, std::vector{kWithData, kOneRank}}}) {
    begin_anew();
    expect_equal(trained(from), expected, from);
    for (const char* to : others) {
      forget_the_last();
      expect_equal(trained(to), expected, cat(from, " -> ", to));
    }
  }
  std::printf("worst relative difference of a loss: %.1e\n", worst_error_);
}

}  // namespace
}  // namespace tessera::cli
