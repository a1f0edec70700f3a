#include "tessera/metrics/outputs/step_outputs.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/base/process/host_name.hpp"
#include "tessera/metrics/display/display.hpp"
#include "tessera/metrics/outputs/endpoint.hpp"

namespace tessera::metrics {
namespace {

using testing::HasSubstr;

class Folder : public testing::Test {
 protected:
  ~Folder() override { std::filesystem::remove_all(path_); }
  const std::filesystem::path path_ = cat(testing::TempDir(), "tessera_outputs_", ::getpid());
};
using StepOutputsFolder = Folder;

const StepFacts kFacts{
    .step = 1, .steps = 1000, .loss = 2, .tokens = 100, .step_seconds = 0.1, .resident_bytes = {1, 2, 3}};

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST_F(StepOutputsFolder, TellOfAStepInWellUnderAMillisecondOfTheProcessor) {
  const int nowhere = open("/dev/null", O_WRONLY);
  double seconds = 0;
  {
    StepOutputs outputs({.folder = path_, .lines = false, .listen = ListenAddress()});
    Display display({.name = "run", .steps = kFacts.steps}, nowhere);
    StepFacts facts = kFacts;
    const double begin = processor_seconds();
    for (; facts.step <= facts.steps; ++facts.step) {
      outputs.add(facts);
      display.update(facts);
    }
    seconds = (processor_seconds() - begin) / static_cast<double>(facts.steps);
  }
  close(nowhere);
  std::printf("metrics.jsonl, event file, endpoint and display: %.0f microseconds of the processor a step\n",
              1e6 * seconds);
  EXPECT_LT(seconds, 1e-3);
}

TEST_F(StepOutputsFolder, ALineSaysWhenWhereAndOfWhichRunItIs) {
  const double before = wall_seconds();
  StepFacts facts = kFacts;
  facts.total_tokens = 12'345'678'901;
  StepOutputs({.folder = path_, .lines = false, .title = {.name = "tiny"}}).add(facts);
  const std::string line = file_text((path_ / "metrics.jsonl").string());
  constexpr std::string_view kTime = "{\"step\": 1, \"time\": ";
  ASSERT_THAT(line, testing::StartsWith(std::string(kTime)));
  EXPECT_NEAR(std::stod(line.substr(kTime.size())), before, 60) << line;
  EXPECT_THAT(line, HasSubstr(cat(R"(, "run": "tiny", "host": ")", host_name(), R"(", "tokens": 100.0)")));
  EXPECT_THAT(line, HasSubstr("\"total_tokens\": 12345678901,"));
}

TEST_F(StepOutputsFolder, ARefusedStartLeavesTheFilesOfAnEarlierRun) {
  const auto contents = [&] {
    std::string out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_))
      if (entry.is_regular_file()) out += entry.path().string() + file_text(entry.path().string());
    return out;
  };
  StepOutputs({.folder = path_, .lines = false}).add(kFacts);
  const std::string before = contents();
  EXPECT_THAT(before, HasSubstr("metrics.jsonl"));
  EXPECT_THAT(before, HasSubstr("events.out.tfevents"));
  const Endpoint taken({});
  EXPECT_THROW(StepOutputs({.folder = path_, .lines = false, .listen = ListenAddress{.port = taken.port()}}),
               UserError);
  EXPECT_EQ(contents(), before);
}

TEST_F(StepOutputsFolder, ANewRunTakesThePlaceOfAnEarlierOneAndLosesNothingOfIt) {
  std::filesystem::create_directories(path_ / "tensorboard");
  std::ofstream(path_ / "tensorboard" / "events.out.tfevents.1.host.1") << "earlier";
  std::ofstream(path_ / "metrics.jsonl") << "{\"step\": 7}\n";
  StepOutputs({.folder = path_, .lines = false}).add(kFacts);
  EXPECT_TRUE(std::filesystem::exists(path_ / "tensorboard" / "events.out.tfevents.1.host.1"));
  EXPECT_THAT(file_text((path_ / "metrics.jsonl").string()), testing::StartsWith("{\"step\": 1,"));
  EXPECT_EQ(file_text((path_ / "metrics.superseded.jsonl").string()), "{\"step\": 7}\n");
}

// As after Ctrl-S.
TEST(Display, DoesNotWaitForAStoppedTerminalAtItsEnd) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(master, 0);
  ASSERT_EQ(grantpt(master) + unlockpt(master), 0);
  const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(tcflow(terminal, TCOOFF), 0);
  const double begin = now_seconds();
  { Display({.name = "run", .steps = 2}, terminal).update(kFacts); }
  EXPECT_LT(now_seconds() - begin, 30) << "about a second when nothing else runs; for ever if it waits";
  ASSERT_EQ(tcflow(terminal, TCOON), 0);
  EXPECT_EQ(fcntl(terminal, F_GETFL) & O_NONBLOCK, 0) << "others share this open file";
  close(terminal);
  close(master);
}

}  // namespace
}  // namespace tessera::metrics
