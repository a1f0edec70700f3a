// Fifty steps of eight processes beside those of one rank.
#pragma once

#include <algorithm>
#include <cmath>

#include "tessera/cli/testing/binary_fixture.hpp"

namespace tessera::cli {

inline constexpr const char* kOneRank = "layout.micro_batch=4";

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

}  // namespace tessera::cli
