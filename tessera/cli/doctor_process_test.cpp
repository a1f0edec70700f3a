// Does `tessera doctor` tell the truth about this machine, in time, and in its exit code?
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tessera/base/clock.hpp"
#include "tessera/base/text.hpp"

namespace tessera::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Outcome {
  int code = 0;
  std::string out;
};

// Runs "<before> tessera doctor <arguments>" in a shell.
Outcome doctor(const std::string& before, const std::string& arguments) {
  const char* binary = std::getenv("TESSERA_BINARY");
  Outcome outcome;
  FILE* pipe =
      popen(cat(before, binary ? binary : "build/release/tessera", " doctor ", arguments).c_str(), "r");
  char buffer[4096];
  while (const auto n = std::fread(buffer, 1, sizeof buffer, pipe)) outcome.out.append(buffer, n);
  outcome.code = WEXITSTATUS(pclose(pipe));
  return outcome;
}

TEST(DoctorCommand, FindsThisMachineReadyWithinThreeSeconds) {
  const double begin = now_seconds();
  const auto outcome = doctor("", "");
  EXPECT_LT(now_seconds() - begin, 3.0);
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  for (const auto* part : {"LibTorch", "cores", "available of", "gloo", "ready to train: 0 problems"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
}

TEST(DoctorCommand, TellsMachinesInJson) {
  const auto outcome = doctor("", "--json");
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_THAT(json.at("torch").get<std::string>(), HasSubstr("2."));
  EXPECT_THAT(json.at("backends").get<std::vector<std::string>>(), ElementsAre("threads", "gloo"));
  EXPECT_THAT(json.at("problems"), IsEmpty());
  EXPECT_GT(json.at("findings").size(), 15u);
}

TEST(DoctorCommand, WhatKeepsRanksFromMeetingIsAProblemAndExitCode2) {
  const auto outcome = doctor("ulimit -n 8; ", "--json");
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_THAT(json.at("backends").get<std::vector<std::string>>(), ElementsAre("threads"));
  EXPECT_THAT(json.at("problems").dump(), HasSubstr("gloo: does not work"));
  EXPECT_THAT(json.at("problems").dump(), HasSubstr("open files: 8 at a time"));
}

TEST(DoctorCommand, AFolderThatCanNotBeWrittenToIsANote) {
  const auto outcome = doctor("TMPDIR=/nonexistent ", "");
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("note     temporary files   /nonexistent can't be written to"));
  EXPECT_THAT(outcome.out, HasSubstr("set TMPDIR"));
}

}  // namespace
}  // namespace tessera::cli
