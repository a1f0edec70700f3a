#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/metrics/display/step_line.hpp"
#include "tessera/metrics/outputs/event_file.hpp"
#include "tessera/metrics/outputs/json_lines.hpp"
#include "tessera/metrics/trace/trace.hpp"

namespace tessera::metrics {
namespace {

using testing::HasSubstr;

class File : public testing::Test {
 protected:
  ~File() override { std::filesystem::remove(path_); }
  std::string text() const { return file_text(path_); }
  const std::string path_ = cat(testing::TempDir(), "tessera_metrics_", ::getpid());
};
using JsonLinesFile = File;
using TraceFile = File;

TEST_F(JsonLinesFile, HoldsOneFlatRecordPerLineVisibleAtOnce) {
  JsonLines lines(path_);
  lines.write(1, std::vector<Field>{{"step", 1}, {"loss", 2.5}, {"note", "a \"b\"\n\\"}});
  EXPECT_EQ(text(), "{\"step\": 1, \"loss\": 2.5, \"note\": \"a \\\"b\\\"\\u000a\\\\\"}\n");
  lines.write(2, std::vector<Field>{{"loss", std::nan("")}, {"rate", 2.0}, {"tiny", 1e-300}});
  EXPECT_THAT(text(), HasSubstr("\n{\"loss\": null, \"rate\": 2.0, \"tiny\": 1e-300}\n"));
}

TEST_F(JsonLinesFile, SaysWhyItCannotBeWritten) {
  EXPECT_THROW(JsonLines("/no/such/folder/metrics.jsonl"), UserError);
}

TEST(OutFile, AFullDiskIsAUserErrorThatNamesFileReasonAndWhatToDo) {
  const auto complaint = [](const std::function<void()>& act) -> std::string {
    try {
      act();
    } catch (const UserError& error) {
      return error.what();
    }
    return "none";
  };
  const std::string rest = "No space left on device. Free space there, or name another place with ";
  EXPECT_EQ(complaint([] { write_trace("/dev/full", {}); }),
            cat("cannot write to '/dev/full': ", rest, "--trace."));
  EXPECT_EQ(complaint([] { EventFile("/dev/full"); }),
            "cannot write to '/dev/full': Not a directory. Name another place with --out.");
}

// Made by TensorBoard's own writer: the record of the message "abc".
TEST(EventFile, FramesAMessageWithItsLengthAndMaskedCheckSums) {
  const std::string record = framed("abc");
  std::string hex;
  for (const char c : record) {
    static constexpr std::string_view kHex = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    hex += {kHex[byte / 16], kHex[byte % 16]};
  }
  EXPECT_EQ(hex, "0300000000000000b099490e6162636e57f121");
}

TEST(StepFacts, AreWrittenUnderOneNameEach) {
  StepFacts facts{.step = 2,
                  .tokens = 100,
                  .step_seconds = 0.5,
                  .exposed_seconds = 0.05,
                  .model_flops = 1e9,
                  .hardware_flops = 2e9,
                  .resident_bytes = {30, 10, 20},
                  .peak_bytes = {5, 7, 6},
                  .moved = {{{"tp", "all_gather", 2, 8, 4}, {"pp", "send", 3, 6, 6}}, 3, 4}};
  const auto field = [&](const std::string& name) {
    for (const Field& found : record_of(facts))
      if (found.name == name) return std::get<double>(found.value);
    return -1.0;
  };
  EXPECT_EQ(field("tokens_per_second"), 200);
  EXPECT_DOUBLE_EQ(field("exposed_communication"), 0.1);
  EXPECT_TRUE(std::isnan(field("model_flop_utilisation"))) << "no peak is known";
  facts.peak_flops_per_second = 8e9;
  EXPECT_DOUBLE_EQ(field("model_flop_utilisation"), 0.25);
  EXPECT_DOUBLE_EQ(field("hardware_flop_utilisation"), 0.5);
  EXPECT_EQ(field("resident_bytes_min"), 10);
  EXPECT_EQ(field("resident_bytes_median"), 20);
  EXPECT_EQ(field("resident_bytes_max"), 30);
  EXPECT_EQ(field("peak_bytes"), 7);
  EXPECT_EQ(field("sent_bytes"), 10);
  EXPECT_EQ(field("offloaded_bytes"), 3);
  EXPECT_EQ(field("fetched_bytes"), 4);
  EXPECT_THAT(
      json_object(record_of(facts)),
      HasSubstr(
          R"("moved": [{"axes": "tp", "kind": "all_gather", "calls": 2, "bytes": 8, "sent_bytes": 4}, )"));
}

TEST_F(TraceFile, ReadsBackWhatWasWritten) {
  const std::vector<Event> events = {
      {"2F0", 0, "compute", 0.25, 0.5, {{"micro", 0}, {"gflops", 12.0}, {"unit", "block 2"}}},
      {"r5", 1, "dp", 0.5, 0.125},
      {"2B0", 1, "compute", 0.75, 1.5},
      {"quote \"", 0, "dp", 2, 0}};
  write_trace(path_, events);
  EXPECT_EQ(read_trace(path_).events, events);
}

TEST_F(TraceFile, GivesALaneTheSameRowOnEveryRankAndNamesIt) {
  write_trace(path_,
              std::vector<Event>{{"a", 0, "compute", 0, 1}, {"b", 0, "dp", 0, 1}, {"c", 3, "dp", 0, 1}});
  EXPECT_THAT(
      text(),
      HasSubstr(R"({"ph": "M", "name": "process_name", "pid": 3, "tid": 0, "args": {"name": "rank 3"}})"));
  EXPECT_THAT(text(),
              HasSubstr(R"({"ph": "M", "name": "thread_name", "pid": 3, "tid": 2, "args": {"name": "dp"}})"));
  EXPECT_THAT(
      text(),
      HasSubstr(R"({"ph": "X", "name": "c", "pid": 3, "tid": 2, "ts": 0, "dur": 1e+06, "args": {}})"));
}

TEST_F(TraceFile, BrokenFilesAreUserErrorsThatNameTheFile) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{", "is not JSON"},
      {"{}", "traceEvents"},
      {R"({"traceEvents": [{"ph": "X", "pid": 0, "tid": 1, "name": "a", "ts": 0, "dur": 1, "args": {}}]})",
       "no thread_name before event 'a'"},
      {R"({"traceEvents": [{"ph": "M", "pid": 0, "tid": 1, "name": "thread_name", "args": {"name": "dp"}},
           {"ph": "X", "pid": 0, "tid": 1, "name": "a", "ts": 5, "dur": -2, "args": {}}]})",
       "event 'a' ends before it starts: 'dur' is -2"},
      {R"({"traceEvents": [{"ph": "X", "pid": "zero", "tid": 1, "name": "a"}]})", "no usable 'pid'"},
      {R"({"traceEvents": [7]})", "no usable 'ph' in 7"}};
  for (const auto& [content, complaint] : cases) {
    std::ofstream(path_) << content;
    try {
      read_trace(path_);
      ADD_FAILURE() << content;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr(complaint));
      EXPECT_THAT(error.what(), HasSubstr(path_));
    }
  }
  EXPECT_THROW(read_trace("/no/such/trace"), UserError);
  EXPECT_THROW(write_trace("/no/such/folder/trace", {}), UserError);
}

TEST(Json, WritesListsRecordsAndTruth) {
  const Record record = {{"ok", true},
                         {"list", std::vector<double>{1, 0.5}},
                         {"rows", std::vector<Record>{{{"a", std::int64_t{1}}}, {}}}};
  EXPECT_EQ(json_object(record), R"({"ok": true, "list": [1.0, 0.5], "rows": [{"a": 1}, {}]})");
}

TEST(Trace, OverlapCountsEachMomentOnce) {
  const auto at = [](std::vector<std::pair<double, double>> spans) {
    std::vector<Event> events;
    for (const auto& [begin, end] : spans) events.push_back({"", 0, "", begin, end - begin});
    return events;
  };
  struct Case {
    std::vector<Event> a, b;
    double seconds;
  };
  const std::vector<Case> cases = {
      {at({}), at({{0, 9}}), 0},
      {at({{0, 1}}), at({{1, 2}}), 0},
      {at({{0, 4}}), at({{1, 2}, {3, 6}}), 2},
      {at({{2, 3}}), at({{0, 9}}), 1},
      {at({{0, 2}, {1, 3}}), at({{1, 2}, {1, 2}}), 1},  // both sides overlap themselves
      {at({{5, 6}, {0, 1}}), at({{0, 6}}), 2},          // order in the list doesn't matter
  };
  for (const Case& c : cases) {
    EXPECT_DOUBLE_EQ(overlap_seconds(c.a, c.b), c.seconds);
    EXPECT_DOUBLE_EQ(overlap_seconds(c.b, c.a), c.seconds);
  }
}

TEST(Trace, SelectsOneLaneOfOneRank) {
  const std::vector<Event> events = {{"a", 0, "compute"}, {"b", 1, "compute"}, {"c", 1, "dp"}};
  EXPECT_EQ(events_of(events, 1, "compute"), (std::vector<Event>{events[1]}));
}

TEST(StepLine, SaysAllInOneLine) {
  StepFacts facts{.step = 7,
                  .steps = 100,
                  .loss = 3.40123,
                  .tokens = 4'111,
                  .gradient_norm = 0.9131,
                  .learning_rate = 1e-3,
                  .step_seconds = 0.3331,
                  .left_seconds = 95};
  EXPECT_EQ(step_line(facts),
            "step   7/100  loss 3.4012  norm 0.913  lr 1.00e-03  12.3k tokens/s  0.333 s  1m35s left");
  facts.taken = false;
  facts.loss = std::numeric_limits<double>::infinity();
  EXPECT_THAT(step_line(facts), HasSubstr("loss inf"));
  EXPECT_THAT(step_line(facts), testing::EndsWith("not finite: step not taken"));
}

}  // namespace
}  // namespace tessera::metrics
