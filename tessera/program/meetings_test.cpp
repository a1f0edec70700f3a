// Programs of two pipeline stages, written by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/program/check.hpp"
#include "tessera/program/examples.hpp"
#include "tessera/program/mutate.hpp"
#include "tessera/program/text.hpp"
#include "tessera/program/waits.hpp"

namespace tessera::program {
namespace {

using testing::HasSubstr;

// Stage 0 holds segment 0 and bucket 0; stage 1 holds segment 1, and buckets 1 and 2.
Tables two_stages() {
  Tables tables = example_tables({.num_blocks = 0, .num_micro = 1});
  tables.axes = {{"pp", 2}, {"dp", 2}};
  tables.axis_sets = {{"dp", {1}}, {"pp", {0}}, {"all", {0, 1}}};
  tables.class_of_rank = {0, 0, 1, 1};
  return tables;
}

Program program_of(const std::string& text, Tables tables = two_stages()) {
  Program program = parse(text, tables);
  for (Sequence& sequence : program.classes) build_waits(sequence, program.tables);
  return program;
}

const std::string kFirstStage = R"(
  class 0
    0: 0F0 @compute
    1: >0.0! @pp over pp hop 1
    2: <G0.0 @pp- over pp hop 1
    3: 0B0 @compute
    4: r0! @dp over dp
    5: +norm @all over all
    6: +finite @all over all
    7: s0 @compute
)";
const std::string kLastStage = R"(
  class 1
    0: +tokens @dp over dp
    1: <0.0 @pp over pp hop -1
    2: 1F0 @compute
    3: 1B0 @compute
    4: >G0.0! @pp- over pp hop -1
    5: r1! @dp over dp
    6: r2! @dp over dp
    7: +loss @dp over dp
    8: +norm @all over all
    9: +finite @all over all
    10: s1 @compute
    11: s2 @compute
)";

TEST(Meetings, TwoStagesGetThroughOnEveryTransport) {
  EXPECT_EQ(to_text(check(program_of(kFirstStage + kLastStage))), "");
}

TEST(Meetings, TwoStagesGetThroughAfterLegalReorderings) {
  const Program program = program_of(kFirstStage + kLastStage);
  for (std::uint64_t seed = 0; seed < 100; ++seed)
    ASSERT_EQ(to_text(check(legal_reordering(program, seed))), "") << "seed " << seed;
}

TEST(Meetings, ASendWithoutReceiveIsNamed) {
  std::string text = kLastStage;
  text.replace(text.find("<0.0 @pp over pp hop -1"), 23, "0F0 @compute");
  const std::string problems = to_text(check(program_of(kFirstStage + text)));
  EXPECT_THAT(problems, HasSubstr("class 0, op 1 (>0.0!) sends what class 1 never receives"));
}

TEST(Meetings, ASendMeetsAReceiveOfTheSameCell) {
  std::string text = kLastStage;
  text.replace(text.find("<0.0"), 4, "<G0.0");
  const std::string problems = to_text(check(program_of(kFirstStage + text)));
  EXPECT_THAT(problems, HasSubstr("op 1 (>0.0!) meets op 1 (<G0.0) of class 1, which expects another cell"));
}

TEST(Meetings, GroupOpsComeInOneOrderOnAllMembers) {
  std::string text = kLastStage;
  text.replace(text.find("8: +norm"), 8, "8: +finite");
  text.replace(text.find("9: +finite"), 10, "9: +norm");
  const std::string problems = to_text(check(program_of(kFirstStage + text)));
  EXPECT_THAT(problems, HasSubstr("op 5 (+norm) meets op 8 (+finite) of class 1 as number 0 over all"));
}

TEST(Meetings, AMemberThatStaysAwayIsNamed) {
  std::string text = kFirstStage;
  text.erase(text.find("    6: +finite"));
  const std::string problems = to_text(check(program_of(text + kLastStage)));
  EXPECT_THAT(problems, HasSubstr("class 1, op 9 (+finite) has no partner in class 0 of its group over all"));
}

// Both stages send before they receive: with buffers both get through, without they wait for each other.
Program both_send_first() {
  Tables tables = two_stages();
  tables.segments.clear();
  tables.buckets.clear();
  tables.values = {{"up", 10}, {"down", 10}};
  return program_of(R"(
    class 0
      0: fN0 @copy
      1: >0.0! @pp over pp hop 1
      2: <1.0 @pp over pp hop 1
      3: d1.0 @compute
    class 1
      0: fN0 @copy
      1: >1.0! @pp over pp hop -1
      2: <0.0 @pp over pp hop -1
      3: d0.0 @compute
  )",
                    tables);
}

bool is_stuck(const std::vector<Problem>& problems) {
  return testing::Value(to_text(problems), HasSubstr("stuck"));
}

TEST(Meetings, TwoSendsThatFaceEachOtherNeedBuffers) {
  const Program program = both_send_first();
  EXPECT_FALSE(is_stuck(check(program, {.rendezvous = false, .one_queue = false})));
  const auto problems = check(program, {.buffered = false, .one_queue = false});
  ASSERT_TRUE(is_stuck(problems));
  EXPECT_THAT(
      to_text(problems),
      HasSubstr(
          "op 1 (>0.0!) of class 0 must meet op 2 (<0.0) of class 1 comes on its lane after op 1 (>1.0!) "
          "of class 1 must meet op 2 (<1.0) of class 0 comes on its lane after op 1 (>0.0!) of class 0"));
}

TEST(Meetings, OneQueueIsStricterThanALaneForEachDirection) {
  Program program = both_send_first();
  for (Sequence& sequence : program.classes) sequence.ops[2].lane.direction = 1;
  for (Sequence& sequence : program.classes) build_waits(sequence, program.tables);
  EXPECT_FALSE(is_stuck(check(program, {.one_queue = false})));
  EXPECT_TRUE(is_stuck(check(program, {.buffered = false, .rendezvous = false})));
}

TEST(Meetings, AReceiveThatItsOwnSendDependsOnIsStuckEvenWithBuffers) {
  Program program = both_send_first();
  for (Sequence& sequence : program.classes) std::swap(sequence.ops[1], sequence.ops[2]);
  EXPECT_TRUE(is_stuck(check(program, {.rendezvous = false, .one_queue = false})));
}

}  // namespace
}  // namespace tessera::program
