#include "tessera/cli/doctor/doctor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Doctor, ReadsInstructionSetsWordByWord) {
  EXPECT_THAT(instruction_sets("processor\t: 0\nflags\t\t: fpu avx2 avx512f avx512_bf16 amx_bf16\n"),
              ElementsAre("AVX2", "AVX-512", "AVX-512 bf16", "AMX bf16"));
  EXPECT_THAT(instruction_sets("flags\t\t: fpu avx avx512fp16 amx_bf16x\n"), IsEmpty());
}

TEST(Doctor, CountsCoresNotHyperthreads) {
  const auto core = [](const char* number, const char* package, const char* core) {
    return std::string("processor\t: ") + number + "\nphysical id\t: " + package + "\ncore id\t\t: " + core +
           "\n\n";
  };
  EXPECT_EQ(
      physical_cores(core("0", "0", "0") + core("1", "0", "1") + core("2", "0", "0") + core("3", "1", "0")),
      3);
  EXPECT_EQ(physical_cores("processor\t: 0\nBogoMIPS\t: 50\n"), 0);
}

TEST(Doctor, SaysProblemsFirstInTheLastLineAndAdviceUnderItsRow) {
  const std::string text = doctor_text({{"memory", "memory", State::note, "1 GiB", "buy more"},
                                        {"transports", "sockets", State::problem, "silent", "speak up"},
                                        {"transports", "threads", State::ok, "works", ""}});
  EXPECT_EQ(text,
            "memory\n"
            "  note     memory   1 GiB\n"
            "                    -> buy more\n"
            "\n"
            "transports\n"
            "  problem  sockets  silent\n"
            "                    -> speak up\n"
            "  ok       threads  works\n"
            "\n"
            "NOT ready to train: 1 problem, 1 note\n");
}

TEST(Doctor, TransportsThatTrainingUsesReallySum) {
  Findings findings;
  std::vector<std::string> usable;
  examine_transports(findings, usable);
  EXPECT_THAT(usable, ElementsAre("sockets", "threads"));
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_THAT(findings[1].value, HasSubstr("two ranks met and summed"));
}

}  // namespace
}  // namespace tessera::cli
