// Does `tessera doctor` tell the truth about this machine, in time, and in its exit code?
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "tessera/cli/testing/binary_fixture.hpp"

namespace tessera::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// "<before> tessera doctor <arguments>" in a shell.
Outcome doctor(const std::string& before, const std::string& arguments) {
  return shell(cat(before, binary(), " doctor ", arguments));
}

// Of all children that have ended.
double processor_seconds() {
  rusage used{};
  EXPECT_EQ(getrusage(RUSAGE_CHILDREN, &used), 0);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

TEST(DoctorCommand, FindsThisMachineReadyInThreeSecondsOfProcessorTime) {
  const double before_seconds = processor_seconds();
  const auto outcome = doctor("", "");
  EXPECT_LT(processor_seconds() - before_seconds, 3.0);
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  for (const auto* part : {"LibTorch", "cores", "available of", "sockets", "ready to train: 0 problems"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
}

TEST(DoctorCommand, TellsMachinesInJson) {
  const auto outcome = doctor("", "--json");
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_THAT(json.at("torch").get<std::string>(), HasSubstr("2."));
  EXPECT_THAT(json.at("backends").get<std::vector<std::string>>(), ElementsAre("sockets", "threads"));
  EXPECT_THAT(json.at("problems"), IsEmpty());
  EXPECT_GT(json.at("findings").size(), 15u);
}

TEST(DoctorCommand, WhatKeepsRanksFromMeetingIsAProblemAndExitCode2) {
  const auto outcome = doctor("ulimit -n 8; ", "--json");
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_THAT(json.at("backends").get<std::vector<std::string>>(), ElementsAre("threads"));
  EXPECT_THAT(json.at("problems").dump(), HasSubstr("sockets: does not work"));
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
