#include <gmock/gmock.h>

#include "tessera/base/files/file_text.hpp"
#include "tessera/cli/testing/binary_fixture.hpp"

namespace tessera::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(Binary, DrawsAScheduleByItself) {
  const auto outcome = tessera(
      cat("draw --schedule zb-v --stages 4 --micro-batches 8 --costs 1,1,1 -o ", path("x.svg"), " --json"));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(field(outcome.out, "makespan"), 25.5);
  EXPECT_THAT(outcome.out, HasSubstr("\"sends\": [16, 32, 32, 16]"));
  const std::string svg = file_text(path("x.svg"));
  EXPECT_TRUE(svg.starts_with("<svg "));
  // Two stages, eight micro-batches, three halves on each of four ranks; transfers take no time.
  EXPECT_EQ(count_of(svg, "<rect class=\"bar "), 4u * 2 * 8 * 3);
}

TEST_F(Binary, DrawsWhatItSimulates) {
  for (const char* schedule : {"gpipe", "interleaved", "zb-h1", "dualpipe-v", "bfs", "auto"}) {
    const std::string of =
        cat(" --schedule ", schedule, " --stages 4 --micro-batches 9 --costs 1,1.2,0.8,0.1 --json");
    const auto drawn = tessera(cat("draw", of, " -o ", path("x.html"))), simulated = tessera("simulate" + of);
    ASSERT_EQ(drawn.code, 0) << drawn.out;
    EXPECT_EQ(field(drawn.out, "makespan"), field(simulated.out, "makespan")) << schedule;
    EXPECT_NEAR(field(drawn.out, "bubble"), field(simulated.out, "bubble"), 1e-12) << schedule;
  }
  EXPECT_TRUE(file_text(path("x.html")).starts_with("<!doctype html>"));
}

TEST_F(Binary, DrawsAWrittenOrder) {
  std::ofstream(path("order.csv")) << "0F0,0F1,,,0B0,,0B1\n,1F0,1B0,1F1,1B1\n";
  const auto outcome = tessera(cat("draw --schedule ", path("order.csv"), " -o ", path("x.svg")));
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("order.csv: 2 ranks, 2 micro-batches, predicted: makespan 9,"));
}

TEST_F(Binary, DrawsPredictionAndMeasurementOnOnePicture) {
  const std::string layout = cat(path("run.toml"), " layout.pp=2 layout.schedule=1f1b");
  const auto trained =
      tessera(cat("train ", layout, " --trace ", path("trace.json"), " --out ", path("out")));
  ASSERT_EQ(trained.code, 0) << trained.out;
  const auto alone = tessera(cat("draw ", path("trace.json"), " --step 2 -o ", path("alone.svg")));
  ASSERT_EQ(alone.code, 0) << alone.out;
  EXPECT_THAT(alone.out, HasSubstr("trace.json, measured, step 2: makespan "));
  const auto both =
      tessera(cat("draw ", layout, " --measured ", path("trace.json"), " --json -o ", path("both.svg")));
  const auto other = tessera(
      cat("draw ", layout, " model.hidden=128 --measured ", path("trace.json"), " -o ", path("other.svg")));
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.out, HasSubstr("is the trace of another run than "));
  EXPECT_FALSE(std::filesystem::exists(path("other.svg")));
  ASSERT_EQ(both.code, 0) << both.out;
  EXPECT_EQ(count_of(both.out, "\"name\": \"rank "), 2u);
  EXPECT_THAT(both.out, HasSubstr("\"name\": \"backward\""));
  const std::string svg = file_text(path("both.svg"));
  EXPECT_THAT(svg, HasSubstr(">predicted: makespan "));
  EXPECT_THAT(svg, HasSubstr(">measured, step "));
  // Four units, four micro-batches, forward and backward, predicted and measured.
  EXPECT_EQ(count_of(svg, "<rect class=\"bar forward"), 4u * 4 * 2);
  EXPECT_EQ(count_of(svg, "<rect class=\"bar backward"), 4u * 4 * 2);
}

TEST_F(Binary, DrawsWhoHoldsWhat) {
  const std::string layout =
      cat("draw ", path("run.toml"), " --layout layout.pp=2 layout.dp_shard=2 layout.zero=3");
  const auto text = tessera(layout), json = tessera(layout + " --json");
  ASSERT_EQ(text.code, 0) << text.out;
  EXPECT_THAT(text.out, HasSubstr("on 4 ranks: pp 2 x dp_shard 2, zero 3"));
  EXPECT_THAT(text.out, HasSubstr("dp_shard R in slices"));
  EXPECT_EQ(count_of(json.out, "\"coordinates\""), 4u);
  const auto first = tessera(cat("draw ", path("run.toml"), " --layout layout.dp_shard=2 layout.zero=1"));
  EXPECT_THAT(first.out, AllOf(HasSubstr("weights, gradients"), HasSubstr("  optimizer state ")))
      << "ZeRO 1 slices the state alone";
  const auto drawn = tessera(cat(layout, " -o ", path("layout.svg")));
  ASSERT_EQ(drawn.code, 0) << drawn.out;
  EXPECT_TRUE(file_text(path("layout.svg")).starts_with("<svg "));
  EXPECT_EQ(tessera(cat(layout, " -o ", path("layout.png"))).code, 2);
  EXPECT_EQ(tessera("draw --schedule 1f1b --layout").code, 2);
}

TEST_F(Binary, DrawsHowLoadedExpertsWere) {
  const auto trained = tessera(cat("train ", path("run.toml"), " model.experts=4 model.experts_per_token=2",
                                   " model.balance=bias --out ", path("out")));
  ASSERT_EQ(trained.code, 0) << trained.out;
  const std::string command = cat("draw --experts ", path("out/metrics.jsonl"), " -o ", path("load.svg"));
  const auto text = tessera(command), json = tessera(command + " --json");
  ASSERT_EQ(text.code, 0) << text.out;
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("Load of experts: 2 layers x 4 experts, 6 steps\nBusiest expert: at worst "),
                    HasSubstr(cat("drawn in ", path("load.svg")))));
  EXPECT_EQ(count_of(json.out, "\"worst_load\": "), 2u) << json.out;
  const std::string metrics = file_text(path("out/metrics.jsonl"));
  EXPECT_EQ(field(json.out, "last_worst_load"),
            field(metrics.substr(metrics.rfind("\"step\"")), "expert_load"));
  const std::string svg = file_text(path("load.svg"));
  EXPECT_TRUE(svg.starts_with("<svg "));
  EXPECT_EQ(count_of(svg, "<g class=\"layer\">"), 2u);
  EXPECT_THAT(svg, HasSubstr("From out/metrics.jsonl, steps 1 to 6."));
}

TEST_F(Binary, RefusesExpertsThatCannotBeDrawn) {
  std::ofstream(path("dense.jsonl")) << "{\"step\": 1, \"loss\": 2.5}\n";
  std::ofstream(path("broken.jsonl")) << "{\"step\": 1, \"loss\": 2.5}\n{\"step\": 2, \n{\"step\": 3}\n";
  std::ofstream(path("empty.jsonl")) << "";
  const std::pair<std::string, const char*> cases[] = {
      {"draw --experts", "name it alone"},
      {cat("draw --experts ", path("dense.jsonl"), " layout.pp=2"), "name it alone"},
      {cat("draw --experts --layout ", path("dense.jsonl")), "name it alone"},
      {cat("draw --experts ", path("dense.jsonl"), " -o ", path("x.html")), "ends in .svg"},
      {cat("draw --experts ", path("dense.jsonl")), "this run has no experts"},
      {cat("draw --experts ", path("broken.jsonl")), "broken.jsonl', line 2: is broken"},
      {cat("draw --experts ", path("empty.jsonl")), "is empty"},
      {cat("draw --experts ", path("none.jsonl")), "No such file"},
      {cat("draw ", path("dense.jsonl")), "is drawn with --experts"},
  };
  for (const auto& [command, text] : cases) {
    const auto outcome = tessera(command);
    EXPECT_EQ(outcome.code, 2) << command;
    EXPECT_THAT(outcome.out, HasSubstr(text)) << command;
  }
  EXPECT_FALSE(std::filesystem::exists(path("x.html")));
}

TEST_F(Binary, AProgramIsWrittenAndReadBack) {
  const std::string layout = cat(path("run.toml"), " layout.pp=2 --json");
  const auto written = tessera(cat("draw ", layout, " -o ", path("program.txt")));
  ASSERT_EQ(written.code, 0) << written.out;
  const auto read = tessera(cat("draw ", path("program.txt"), " --json -o ", path("x.svg")));
  EXPECT_EQ(field(read.out, "makespan"), field(written.out, "makespan")) << read.out;
  const auto simulated = tessera(cat("simulate ", path("program.txt"), " --json"));
  EXPECT_EQ(field(simulated.out, "makespan"), field(written.out, "makespan")) << simulated.out;
  std::string text = file_text(path("program.txt"));
  text.erase(text.find("\nclass 1"));
  std::ofstream(path("half.txt")) << text << "\n";
  EXPECT_THAT(tessera(cat("draw ", path("half.txt"))).out, HasSubstr("half.txt: the ops don't make a step"));
}

TEST_F(Binary, RefusesWhatCannotBeDrawn) {
  std::ofstream(path("empty.json")) << "{\"traceEvents\": []}";
  std::ofstream(path("old.json")) << R"({"traceEvents": [
{"ph": "M", "name": "thread_name", "pid": 0, "tid": 1, "args": {"name": "compute"}},
{"ph": "X", "name": "0F0", "pid": 0, "tid": 1, "ts": 1, "dur": 1, "args": {"step": 1}}]})";
  std::ofstream(path("program.txt")) << "class 0\n";
  const std::pair<std::string, const char*> cases[] = {
      {"draw", "takes a run file, or --schedule"},
      {cat("draw --schedule 1f1b -o ", path("x.png")), "ends in .svg or .html"},
      {cat("draw --schedule 1f1b -o ", path("x.txt")), "Draw a run file instead"},
      {"draw --schedule 1f1b --measured x.json", "name the file too"},
      {cat("draw ", path("empty.json")), "has no events"},
      {cat("draw ", path("old.json")), "'0F0' does not say its kind"},
      {cat("draw ", path("program.txt")), "has no run in it"},
      {"draw --schedule gpipe --stages 16 --micro-batches 4096 -o /dev/null.svg",
       "bars; up to 200000 can be shown"},
  };
  for (const auto& [command, text] : cases) {
    const auto outcome = tessera(command);
    EXPECT_EQ(outcome.code, 2) << command;
    EXPECT_THAT(outcome.out, HasSubstr(text)) << command;
  }
  EXPECT_FALSE(std::filesystem::exists(path("x.png")));
  EXPECT_FALSE(std::filesystem::exists(path("x.txt")));
}

}  // namespace
}  // namespace tessera::cli
