// Does the binary do what the README says? Runs it as a user would and reads what it prints.
#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "tessera/base/files/file_text.hpp"
#include "tessera/cli/testing/binary_fixture.hpp"
#include "tessera/metrics/trace/trace.hpp"

namespace tessera::cli {
namespace {

using testing::HasSubstr;

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

TEST_F(Binary, VerifiesAllLayoutsAndSaysSoInJson) {
  const std::string all = cat("verify ", path("run.toml"), " --all-layouts 2");
  const auto outcome = tessera(all + " --axes dp,zero --json");
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_GT(field(outcome.out, "layouts"), 4);
  EXPECT_EQ(field(outcome.out, "passed"), field(outcome.out, "layouts"));
  EXPECT_EQ(field(outcome.out, "failed"), 0);
  EXPECT_LE(field(outcome.out, "worst_relative_error"), 1e-10);
  const auto some = tessera(all + " --sample 3 --seed 5");
  ASSERT_EQ(some.code, 0) << some.out;
  EXPECT_NE(some.out.find("3 of 3 layouts equal one device"), std::string::npos) << some.out;
  EXPECT_EQ(tessera(all + " --axes dp,zer").code, 2);
  EXPECT_EQ(tessera(cat("verify ", path("run.toml"), " --sample 3")).code, 2);
  const auto part = tessera(all + " --sample 3 --seed 5 --part 2/2");
  EXPECT_NE(part.out.find("1 of 1 layouts equal one device"), std::string::npos) << part.out;
  for (const char* wrong : {"3/2", "0/2", "2", "1/x"})
    EXPECT_EQ(tessera(cat(all, " --part ", wrong)).code, 2) << wrong;
}

TEST_F(Binary, TheFirstLineSaysHowRanksShareTheWork) {
  const auto outcome = tessera(cat("train ", path("run.toml"), " --out ", path("out"),
                                   " training.steps=1 cluster.transport=threads layout.cp=2 layout.zero=1"));
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_NE(outcome.out.find("2 ranks (dp 1, cp 2, zero 1)"), std::string::npos) << outcome.out;
  const std::string kept = file_text(path("out/run.toml"));
  EXPECT_NE(kept.find("\nsteps = 1\n"), std::string::npos) << "the run folder has the whole run file";
  EXPECT_EQ(tessera(cat("train ", path("out/run.toml"), " --print-config")).out, kept);
}

TEST_F(Binary, ShowsTheErrorOfTheRankThatFailedFirst) {
  const std::string train = cat("train ", path("run.toml"), " --out ", path("out"));
  EXPECT_EQ(tessera(cat(train, " training.steps=1 checkpoint.every=1")).code, 0);
  const auto outcome = tessera(cat(train, " model.hidden=128 --procs 2"));  // another model than was saved
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  const auto first = outcome.out.find("failed first");
  EXPECT_NE(first, std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("model.hidden = 128"), std::string::npos) << outcome.out;
}

TEST_F(Binary, HelpFitsAHundredColumns) {
  for (const char* of :
       {"", "train", "verify", "simulate", "draw", "plan memory", "checkpoint export", "doctor"}) {
    const auto help = tessera(cat(of, " --help"));
    EXPECT_EQ(help.code, 0);
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << of << ": " << line;
  }
  for (const char* of : {"train", "verify", "simulate", "draw", "plan memory"})
    EXPECT_LE(std::ranges::count(tessera(cat(of, " --help")).out, '\n'), 50) << of;
  EXPECT_NE(tessera("train --help-all").out.find("  training.steps = 100 "), std::string::npos);
}

TEST_F(Binary, NamesOfOtherSystemsAreAnsweredWithOurs) {
  const auto told = [&](const std::string& what) {
    const auto outcome = tessera(cat("train ", path("run.toml"), " ", what));
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    return outcome.out;
  };
  EXPECT_THAT(told("training.lr=1"),
              HasSubstr("unknown key training.lr; here that is training.learning_rate."));
  EXPECT_THAT(told("layout.tensor_parallel=2"), HasSubstr("here that is layout.tp."));
  EXPECT_THAT(told("model.num_layers=2"), HasSubstr("here that is model.layers."));
  EXPECT_THAT(told("batch_size=8"), HasSubstr("here that is training.global_batch (samples of a step"));
  EXPECT_THAT(told("--steps 20"), HasSubstr("has no option --steps; write training.steps=20."));
  EXPECT_THAT(told("--max_steps=20"), HasSubstr("has no option --max_steps; write training.steps=20."));
  EXPECT_THAT(told("--resume x"), HasSubstr("write --from (a run resumes from its own newest"));
  EXPECT_THAT(told("--trase x"), HasSubstr("has no option --trase; did you mean --trace?"));
}

TEST_F(Binary, AMistypedCommandIsAnsweredWithTheNearest) {
  EXPECT_NE(tessera("checkpoint").out.find("tessera checkpoint needs a command: inspect, "),
            std::string::npos);
  EXPECT_NE(tessera("train").out.find("file is required\nSee tessera train --help."), std::string::npos);
  const auto mistyped = tessera("trian run.toml");
  EXPECT_EQ(mistyped.code, 2);
  EXPECT_NE(
      mistyped.out.find("unknown command 'trian'; did you mean train? The commands of tessera are train, "),
      std::string::npos)
      << mistyped.out;
  EXPECT_NE(tessera("checkpoint exprot a b").out.find("unknown command 'exprot'; did you mean export?"),
            std::string::npos);
  EXPECT_NE(tessera("plan").out.find("plan takes a run file"), std::string::npos);
}

TEST_F(Binary, NamesFileLineAndTheNearestKey) {
  std::ofstream(folder_ / "wrong.toml") << "[model]\nlayerz = 3\n";
  const auto outcome = tessera(cat("train ", path("wrong.toml")));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.out.find("wrong.toml:2"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("layers"), std::string::npos) << outcome.out;
}

TEST_F(Binary, RefusesByNameWhatItCannotDo) {
  const auto outcome = tessera(cat("train ", path("run.toml"), " layout.tp_kind=2d layout.tp=3 layout.ep=2"));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.out.find("layout.tp = 3"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("layout.ep = 2"), std::string::npos) << outcome.out;
}

TEST_F(Binary, DataParallelRanksAreWhatZeroSaysAndAsManyAsFit) {
  const auto config = [&](const std::string& more) {
    return tessera(cat("train ", path("run.toml"), " --print-config ", more)).out;
  };
  EXPECT_NE(config("--procs 2 layout.zero=3").find("\ndp_shard = 2\n"), std::string::npos);
  EXPECT_NE(config("--procs 2").find("\ndp_replicate = 2\n"), std::string::npos);
  EXPECT_NE(config("layout.dp=2 layout.zero=1").find("\ndp_shard = 2\n"), std::string::npos);
  EXPECT_NE(
      config("layout.dp_replicate=2 layout.zero=3").find("Write layout.dp_shard = 2 instead of dp_replicate"),
      std::string::npos);
  EXPECT_NE(config("--procs 4 layout.pp=2").find("Start 2, or change the layout: layout.dp=2."),
            std::string::npos);
  EXPECT_NE(config("--procs 3 layout.pp=2")
                .find("Start 2. Other numbers must be multiples of pp * cp * tp = 2, with the factor"),
            std::string::npos);
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
  const auto events = metrics::read_trace(path("trace.json")).events;
  for (const std::int64_t rank : {0, 1}) {
    EXPECT_FALSE(metrics::events_of(events, rank, "compute").empty());
    EXPECT_FALSE(metrics::events_of(events, rank, "communication dp").empty());
  }
  EXPECT_FALSE(std::filesystem::exists(path("trace.json.rank1")));
  const auto last_backward = std::ranges::find_if(events, [](const metrics::Event& event) {
    return metrics::argument<std::string>(event, "op") == "0B1";
  });
  ASSERT_NE(last_backward, events.end());
  EXPECT_EQ(last_backward->name, "backward embedding, micro-batch 1");
  EXPECT_NE(std::ranges::find(events, "reduce block.1", &metrics::Event::name), events.end());
  const std::vector<metrics::Field> expected = {{"step", std::int64_t{1}},
                                                {"what", std::string("backward")},
                                                {"segment", std::int64_t{0}},
                                                {"micro", std::int64_t{1}}};
  EXPECT_EQ(std::vector(last_backward->args.begin(), last_backward->args.begin() + 4), expected);
}

TEST_F(Binary, AKilledRunLeavesATraceWithoutEvents) {
  const auto killed =
      shell(cat(binary(), " train ", path("run.toml"), " --procs 2 training.steps=1000000 --trace ",
                path("trace.json"), " --out ", path("out"), " & launcher=$!; while [ ! -s ", path("out"),
                "/metrics.jsonl ] && kill -0 $launcher; do sleep 0.05; done; ",
                "kill -9 $(pgrep -P $launcher); wait $launcher"));
  EXPECT_EQ(killed.code, 75) << killed.out;
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    if (entry.path().filename().string().starts_with("trace.json"))
      left.push_back(entry.path().filename().string());
  EXPECT_EQ(left, std::vector<std::string>{"trace.json"});
  EXPECT_NE(tessera(cat("draw ", path("trace.json"), " -o ", path("trace.svg"))).out.find("has no events"),
            std::string::npos);
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

TEST_F(Binary, SaysItsVersionAndCompletesWhatIsTypedInAShell) {
  EXPECT_TRUE(tessera("--version").out.starts_with("tessera 0.1, LibTorch 2."));
  const std::string script = path("completion.bash");
  ASSERT_EQ(shell(cat(binary(), " completion bash > ", script)).code, 0);
  const auto completed = [&](const std::string& words, int at) {
    return shell(cat("bash -c '. ", script, "; COMP_WORDS=(tessera ", words, "); COMP_CWORD=", at,
                     "; _tessera; echo \"${COMPREPLY[*]}\"'"))
        .out;
  };
  EXPECT_EQ(completed("ver", 1), "verify\n");
  EXPECT_EQ(completed("checkpoint in", 2), "inspect\n");
  EXPECT_EQ(completed("train run.toml layout.dp_", 3), "layout.dp_replicate= layout.dp_shard=\n");
  EXPECT_EQ(completed("draw run.toml --mem", 3), "--memory-limit --memory\n");
  EXPECT_EQ(tessera("completion csh").code, 2);
}

}  // namespace
}  // namespace tessera::cli
