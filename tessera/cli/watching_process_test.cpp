// Can a run be watched? The binary in a real terminal, its event files read by TensorBoard, its endpoint
// asked by an HTTP client.
#include <gmock/gmock.h>

#include "tessera/cli/testing/binary_fixture.hpp"

namespace tessera::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class Watching : public Binary {
 protected:
  // examples/tiny.toml with small steps; saves nothing, so that the next run begins anew.
  std::string train(int steps) const {
    return cat(binary(), " train examples/tiny.toml training.global_batch=4 checkpoint.every_minutes=0 ",
               "training.steps=", steps, " --out ", path("out"));
  }

  // The named fields of each line of metrics.jsonl.
  std::vector<std::vector<double>> fields(const std::vector<std::string>& names) const {
    std::ifstream file(path("out/metrics.jsonl"));
    std::vector<std::vector<double>> steps;
    for (std::string line; std::getline(file, line);) {
      auto& step = steps.emplace_back();
      for (const std::string& name : names) step.push_back(field(line, name));
    }
    return steps;
  }
};

// A terminal that is tmux, as large as it is told.
class Terminal {
 public:
  Terminal(const std::filesystem::path& folder, int columns, int rows, const std::string& command)
      : tmux_(cat("LC_ALL=C.UTF-8 tmux -f /dev/null -S ", folder.string(), "/socket", num_made_++, " ")),
        code_(folder / "code") {
    std::filesystem::remove(code_);
    const auto script = folder / "run.sh";
    std::ofstream(script) << command << "\necho $? > " << code_.string() << "\nsleep 100\n";
    const auto started =
        shell(cat(tmux_, "new-session -d -x ", columns, " -y ", rows, " sh ", script.string()));
    EXPECT_EQ(started.code, 0) << started.out;
  }
  ~Terminal() { shell(cat(tmux_, "kill-server")); }

  void resize(int columns, int rows) { shell(cat(tmux_, "resize-window -x ", columns, " -y ", rows)); }
  // With all that has scrolled off.
  std::string screen() const { return shell(cat(tmux_, "capture-pane -p -S -")).out; }
  bool is_over() const { return std::filesystem::exists(code_); }
  std::string cursor_is_visible() const { return shell(cat(tmux_, "display -p '#{cursor_flag}'")).out; }
  std::string wait_for(const std::string& part) const {
    for (int i = 0; i < 1200 && screen().find(part) == std::string::npos; ++i) usleep(50'000);
    return screen();
  }
  std::string wait_for_end() const {
    for (int i = 0; i < 1200 && !is_over(); ++i) usleep(50'000);
    return screen();
  }

 private:
  inline static int num_made_ = 0;  // each has a server of its own: the one before may be just ending
  std::string tmux_;
  std::filesystem::path code_;
};

TEST_F(Watching, ATerminalShowsOneFrameAndTheSummaryBelowIt) {
  for (const int columns : {80, 200}) {
    Terminal terminal(folder_, columns, 24, cat("LC_ALL=C.UTF-8 ", train(40), " --procs 2"));
    EXPECT_THAT(terminal.wait_for(" left"), HasSubstr("tokens/s"));
    const std::string end = terminal.wait_for_end();
    EXPECT_EQ(count_of(end, "learning rate"), 1u) << end;
    EXPECT_THAT(end, HasSubstr("40/40  100 %"));
    EXPECT_LT(end.find("done in"), end.find("trained 40 steps")) << end;
    EXPECT_EQ(end.find("tiny"), 0u) << end;
  }
}

TEST_F(Watching, ANarrowerAndAWiderTerminalKeepOneFrame) {
  Terminal terminal(folder_, 120, 30, cat("LC_ALL=C.UTF-8 ", train(120)));
  terminal.wait_for(" left");
  for (const int columns : {70, 200, 50, 100}) {
    terminal.resize(columns, 30);
    usleep(400'000);
    EXPECT_EQ(count_of(terminal.screen(), "learning rate"), 1u) << columns << "\n" << terminal.screen();
  }
  const std::string end = terminal.wait_for_end();
  EXPECT_EQ(count_of(end, "learning rate"), 1u) << end;
  EXPECT_THAT(end, HasSubstr("120/120  100 %"));
}

TEST_F(Watching, AnErrorStandsBelowTheLastFrameAndTheCursorIsVisible) {
  Terminal terminal(folder_, 80, 24,
                    cat("LC_ALL=C.UTF-8 ", train(2000), " --procs 2 & echo $! > ", path("pid"), "; wait $!"));
  terminal.wait_for("100 % =");
  const auto killed = shell(cat("launcher=$(cat ", path("pid"),
                                "); set -- $(cat /proc/$launcher/task/$launcher/children); kill -KILL $2"));
  ASSERT_EQ(killed.code, 0) << killed.out;
  const std::string end = terminal.wait_for_end();
  EXPECT_EQ(count_of(end, "learning rate"), 1u) << end;
  const auto error = end.find("tessera: rank 1");
  ASSERT_NE(error, end.npos) << end;
  EXPECT_GT(error, end.find("100 % =")) << end;
  EXPECT_EQ(terminal.cursor_is_visible(), "1\n");
}

TEST_F(Watching, DumbTerminalsAndPipesGetPlainLines) {
  Terminal terminal(folder_, 100, 24, cat("TERM=dumb ", train(3)));
  EXPECT_THAT(terminal.wait_for_end(), HasSubstr("step 3/3  loss "));
  EXPECT_THAT(shell(train(3)).out, Not(HasSubstr("\x1b")));
}

TEST_F(Watching, NoColorAndOtherLocalesAreHonoured) {
  const auto shown = shell(cat("NO_COLOR=1 LC_ALL=C TERM=xterm script -qec '", train(5), "' /dev/null")).out;
  EXPECT_THAT(shown, HasSubstr("====")) << shown;
  EXPECT_THAT(shown, Not(HasSubstr("\x1b[1m"))) << shown;
}

TEST_F(Watching, TensorBoardReadsWhatMetricsJsonlSays) {
  for (const int steps : {6, 4}) {  // the second run replaces the first
    ASSERT_EQ(shell(cat(train(steps), " --procs 2")).code, 0);
    const auto read = shell(cat(".venv/bin/python tests/watching/read_events.py ", path("out")));
    EXPECT_EQ(read.code, 0) << read.out;
    EXPECT_THAT(read.out, HasSubstr(cat(" scalars of ", steps, " steps agree, 2 of them of calls")));
  }
}

TEST_F(Watching, UtilisationIsTheFlopsOfTheModelOverThePeakThatWasNamed) {
  ASSERT_EQ(shell(cat(train(3), " cluster.peak_tflops=0.002 --procs 2")).code, 0);
  // 395,264 weights in products, 6 FLOPs a token each; attention of 2 layers over 128 x 128 positions, 128
  // channels.
  constexpr double kTokens = 4 * 128;
  constexpr double kFlops = 6 * 395'264 * kTokens + 2 * 12 * kTokens * 128 * 128;
  const auto steps = fields({"model_flop_utilisation", "hardware_flop_utilisation", "step_seconds"});
  ASSERT_EQ(steps.size(), 3u);
  for (const auto& step : steps) {
    EXPECT_NEAR(step[0] * step[2] * 2 * 0.002e12 / kFlops, 1, 1e-9);
    EXPECT_EQ(step[0], step[1]);
  }
}

TEST_F(Watching, OnlyCommunicationThatNothingHidesIsExposed) {
  ASSERT_EQ(shell(train(3)).code, 0);
  for (const auto& step : fields({"exposed_communication"})) EXPECT_EQ(step[0], 0);
  ASSERT_EQ(shell(cat(train(3), " --procs 2 layout.overlap=false")).code, 0);
  for (const auto& step : fields({"exposed_communication"})) {
    EXPECT_GT(step[0], 0);
    EXPECT_LT(step[0], 1);
  }
}

TEST_F(Watching, TheEndpointAnswersGetOnLoopbackAndNothingElse) {
  const auto asked =
      shell(cat(".venv/bin/python tests/watching/ask_endpoint.py ", train(2000), " metrics.listen=0"));
  EXPECT_EQ(asked.code, 0) << asked.out;
}

TEST_F(Watching, ATraceThatADiskRefusesIsToldOfAndEndsNothing) {
  const std::string full = path("full.json");  // the other ranks' parts are made beside it
  std::filesystem::create_symlink("/dev/full", full);
  const auto outcome = shell(cat(train(3), " --procs 2 --trace ", full));
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out,
              HasSubstr(cat("warning: there is no trace: cannot write to '", full, "': No space left")));
  EXPECT_THAT(outcome.out, HasSubstr("trained 3 steps"));
  EXPECT_EQ(shell(cat(train(3), " --trace /no/such/folder/trace.json")).code, 2) << "that does not pass";
}

// The limit is on every file that the process writes: metrics.jsonl and the event file stand still at it.
TEST_F(Watching, AFileSizeLimitEndsNothing) {
  const auto outcome = shell(cat("ulimit -f 32; ", train(60), " --json"));
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("metrics.jsonl': File too large. Training goes on"));
  EXPECT_THAT(outcome.out, HasSubstr("metrics.jsonl' is incomplete: it lacks steps "));
  EXPECT_EQ(field(outcome.out, "steps"), 60);
  const auto kept = fields({"step"});
  ASSERT_FALSE(kept.empty());
  EXPECT_LT(kept.size(), 60u);
  EXPECT_EQ(kept.back()[0], static_cast<double>(kept.size())) << "whole lines, none left out";
}

}  // namespace
}  // namespace tessera::cli
