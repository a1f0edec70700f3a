// Does `tessera train` train as a loop written in PyTorch does? tests/reference/loop.py trains six runs in
// fp64 on Gloo processes, reading the corpus in an order that it computes itself; losses, gradient norms and
// learning rates of every step are compared. Takes half a minute, most of it Python's.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "tessera/cli/testing/binary_fixture.hpp"

namespace tessera::cli {
namespace {

constexpr double kAllowed = 1e-12;

struct Step {
  double loss = 0, norm = 0, learning_rate = 0;
};

class ReferenceLoop : public Binary {
 protected:
  void SetUp() override {
    Binary::SetUp();
    const auto loop = shell(cat(".venv/bin/python tests/reference/loop.py ", folder_.string()));
    ASSERT_EQ(loop.code, 0) << loop.out;
  }

  std::vector<Step> expected(const std::string& name) const {
    std::ifstream file(folder_ / name / "steps");
    std::vector<Step> out;
    for (Step step; file >> step.loss >> step.norm >> step.learning_rate;) out.push_back(step);
    return out;
  }

  // What the run of that name writes to metrics.jsonl.
  std::vector<Step> trained(const std::string& name) const {
    std::ifstream file(folder_ / name / "keys");
    std::string keys, procs;
    std::getline(file, keys);
    std::getline(file, procs);
    const std::string out = (folder_ / name / "out").string();
    const auto run =
        tessera(cat("train ", path("empty.toml"), " ", keys, " --procs ", procs, " --out ", out));
    EXPECT_EQ(run.code, 0) << run.out;
    std::ifstream metrics(out + "/metrics.jsonl");
    std::vector<Step> steps;
    for (std::string line; std::getline(metrics, line);)
      steps.push_back({field(line, "loss"), field(line, "gradient_norm"), field(line, "learning_rate")});
    return steps;
  }
};

TEST_F(ReferenceLoop, SixRunsAreAsPyTorchTrainsThem) {
  std::ofstream(path("empty.toml")) << "";
  double worst = 0;
  for (const char* name : {"alone", "linear", "wsd", "sgd", "documents", "gpt2"}) {
    const auto steps = expected(name), found = trained(name);
    ASSERT_EQ(steps.size(), 12u) << name;
    ASSERT_EQ(found.size(), steps.size()) << name;
    double own = 0;
    for (std::size_t i = 0; i < steps.size(); ++i)
      for (const auto part : {&Step::loss, &Step::norm, &Step::learning_rate})
        own = std::max(own, std::abs(found[i].*part / (steps[i].*part) - 1));
    std::printf("%s: worst relative error of 12 steps %.1e\n", name, own);
    EXPECT_LE(own, kAllowed) << name;
    worst = std::max(worst, own);
  }
  EXPECT_GT(worst, 0) << "two programs that round alike to the last bit: is it the same one?";
}

}  // namespace
}  // namespace tessera::cli
