// Does the binary do what the README says? Runs it as a user would and reads what it prints.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tessera/base/text.hpp"
#include "tessera/metrics/trace.hpp"

namespace tessera::cli {
namespace {

struct Outcome {
  int code = 0;
  std::string out;  // standard output and error, as they came
};

class Binary : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / cat("tessera-cli-", getpid());
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "run.toml") << R"(
[model]
layers = 2
hidden = 64
heads = 4
kv_heads = 2
ffn = 96
vocab = 256
sequence = 32
[data]
path = "corpus/kjv.txt"
[training]
steps = 6
global_batch = 8
[layout]
micro_batch = 2
)";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const char* name) const { return (folder_ / name).string(); }

  Outcome tessera(const std::string& arguments) const {
    const char* binary = std::getenv("TESSERA_BINARY");
    Outcome outcome;
    FILE* pipe = popen(cat(binary ? binary : "build/release/tessera", " ", arguments, " 2>&1").c_str(), "r");
    char buffer[4096];
    while (const auto n = std::fread(buffer, 1, sizeof buffer, pipe)) outcome.out.append(buffer, n);
    const int status = pclose(pipe);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return outcome;
  }

  // The number after "name": in a flat JSON text.
  static double field(const std::string& json, const std::string& name) {
    const auto at = json.find(cat("\"", name, "\": "));
    EXPECT_NE(at, std::string::npos) << name << " is missing in " << json;
    return at == std::string::npos ? 0 : std::atof(json.c_str() + at + name.size() + 4);
  }

  std::vector<double> losses() const {
    std::ifstream file(path("out/metrics.jsonl"));
    std::vector<double> out;
    for (std::string line; std::getline(file, line);) out.push_back(field(line, "loss"));
    return out;
  }

  std::filesystem::path folder_;
};

TEST_F(Binary, TrainsOnProcessesAsOnOne) {
  const std::string train = cat("train ", path("run.toml"), " --out ", path("out"));
  const auto alone = tessera(train);
  ASSERT_EQ(alone.code, 0) << alone.out;
  EXPECT_NE(alone.out.find("step 6/6  loss "), std::string::npos) << alone.out;
  const auto one = losses();
  ASSERT_EQ(one.size(), 6u);
  for (const int procs : {2, 4}) {
    const auto many = tessera(cat(train, " --procs ", procs));
    ASSERT_EQ(many.code, 0) << many.out;
    const auto found = losses();
    ASSERT_EQ(found.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(found[i] / one[i], 1.0, 1e-4) << procs << " ranks";
  }
}

TEST_F(Binary, VerifiesOnProcessesAndSaysSoInJson) {
  const auto outcome = tessera(cat("verify ", path("run.toml"), " --procs 3 --json"));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_NE(outcome.out.find("\"passed\": true"), std::string::npos) << outcome.out;
  EXPECT_LE(field(outcome.out, "worst_relative_error"), 1e-10);
  EXPECT_EQ(field(outcome.out, "ranks"), 3);
  EXPECT_EQ(
      field(tessera(cat("verify ", path("run.toml"), " layout.dp_replicate=2 --json --procs")).out, "ranks"),
      2);
  EXPECT_EQ(tessera(cat("verify ", path("run.toml"), " --procs none")).code, 2);
}

TEST_F(Binary, ShowsTheErrorOfTheRankThatFailedFirst) {
  const auto outcome =
      tessera(cat("train ", path("run.toml"), " data.path=/nonexistent/text --procs 2 --out ", path("out")));
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  const auto first = outcome.out.find("failed first");
  EXPECT_NE(first, std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("/nonexistent/text"), std::string::npos) << outcome.out;
}

TEST_F(Binary, NamesFileLineAndTheNearestKey) {
  std::ofstream(folder_ / "wrong.toml") << "[model]\nlayerz = 3\n";
  const auto outcome = tessera(cat("train ", path("wrong.toml")));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.out.find("wrong.toml:2"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("layers"), std::string::npos) << outcome.out;
}

TEST_F(Binary, RefusesByNameWhatIsNotImplementedYet) {
  const auto outcome = tessera(cat("train ", path("run.toml"), " layout.pp=2 layout.zero=3"));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.out.find("layout.pp = 2"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("layout.zero = 3"), std::string::npos) << outcome.out;
}

TEST_F(Binary, PrintsAConfigurationThatIsItselfInput) {
  const auto printed =
      tessera(cat("train ", path("run.toml"), " --print-config training.learning_rate=0.0025"));
  ASSERT_EQ(printed.code, 0) << printed.out;
  EXPECT_NE(printed.out.find("learning_rate = 0.0025"), std::string::npos) << printed.out;
  std::ofstream(folder_ / "again.toml") << printed.out;
  EXPECT_EQ(tessera(cat("train ", path("again.toml"), " --print-config")).out, printed.out);
}

TEST_F(Binary, WritesATraceWithARowPerLaneOfEachRank) {
  const auto outcome = tessera(
      cat("train ", path("run.toml"), " --procs 2 --trace ", path("trace.json"), " --out ", path("out")));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  const auto events = metrics::read_trace(path("trace.json"));
  for (const std::int64_t rank : {0, 1}) {
    EXPECT_FALSE(metrics::events_of(events, rank, "compute").empty());
    EXPECT_FALSE(metrics::events_of(events, rank, "communication dp").empty());
  }
  EXPECT_FALSE(std::filesystem::exists(path("trace.json.rank1")));
}

TEST_F(Binary, TellsBeforeTheFirstStepWhatItCannotWrite) {
  for (const char* where : {"--trace /nonexistent/trace.json", "--out README.md/out"}) {
    const auto outcome = tessera(cat("train ", path("run.toml"), " ", where));
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_EQ(outcome.out.find("step 1/6"), std::string::npos) << outcome.out;
  }
}

TEST_F(Binary, BenchStepReportsTheRatioToTheBareLoop) {
  const auto outcome = tessera(cat("bench step ", path("run.toml"), " --rounds 3 --json"));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_GT(field(outcome.out, "ratio_median"), 0);
  EXPECT_GE(field(outcome.out, "ratio_spread"), 0);
  EXPECT_GT(field(outcome.out, "tokens_per_second"), 0);
}

}  // namespace
}  // namespace tessera::cli
