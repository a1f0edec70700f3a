// Programs of two pipeline stages, written by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/program/check/check.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/ir/waits.hpp"
#include "tessera/program/passes/generate.hpp"
#include "tessera/program/testing/examples.hpp"
#include "tessera/program/testing/mutate.hpp"

namespace tessera::program {
namespace {

using testing::HasSubstr;
using testing::Not;

// Stage 0 holds segment 0 and bucket 0; stage 1 holds segment 1, and buckets 1 and 2.
Tables two_stages() {
  Tables tables = example_tables({.num_blocks = 0, .num_micro = 1});
  tables.axes = {{"pp", 2}, {"dp", 2}};
  tables.axis_sets = {{"dp", {1}}, {"pp", {0}}, {"all", {0, 1}}};
  tables.class_of_rank = {0, 0, 1, 1};
  tables.stage_axis = 0;
  for (Number& number : tables.numbers) number.partial_over = {0, 1};
  tables.numbers[0].partial_over =
      tables.numbers[1].partial_over = {1};  // only the last stage has tokens and a loss
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
      0: +tokens @copy
      1: >0.0! @pp over pp hop 1
      2: <1.0 @pp over pp hop 1
      3: d1.0 @compute
    class 1
      0: +tokens @copy
      1: >1.0! @pp over pp hop -1
      2: <0.0 @pp over pp hop -1
      3: d0.0 @compute
  )",
                    tables);
}

// In which of the three walks the program gets stuck.
struct StuckProgram {
  bool buffered = false, rendezvous = false, one_queue = false;
  bool operator==(const StuckProgram&) const = default;
};
StuckProgram stuck(const Program& program) {
  const std::string problems = to_text(check(program));
  const auto in = [&](const char* walk) { return problems.find(walk) != std::string::npos; };
  return {in("stuck with buffered sends:"), in("stuck with rendezvous sends:"),
          in("stuck with rendezvous sends and one queue a rank:")};
}

TEST(Meetings, TwoSendsThatFaceEachOtherNeedBuffers) {
  const Program program = both_send_first();
  ASSERT_EQ(stuck(program), (StuckProgram{.rendezvous = true, .one_queue = true}));
  EXPECT_THAT(
      to_text(check(program)),
      HasSubstr(
          "stuck with rendezvous sends: op 1 (>0.0!) of class 0 must meet op 2 (<0.0) of class 1 comes on "
          "its lane after op 1 (>1.0!) "
          "of class 1 must meet op 2 (<1.0) of class 0 comes on its lane after op 1 (>0.0!) of class 0"));
}

TEST(Meetings, OneQueueIsStricterThanALaneForEachDirection) {
  Program program = both_send_first();
  for (Sequence& sequence : program.classes) sequence.ops[2].lane.direction = 1;
  for (Sequence& sequence : program.classes) build_waits(sequence, program.tables);
  EXPECT_EQ(stuck(program), (StuckProgram{.one_queue = true}));
}

TEST(Meetings, AReceiveThatItsOwnSendDependsOnIsStuckEvenWithBuffers) {
  Program program = both_send_first();
  for (Sequence& sequence : program.classes) std::swap(sequence.ops[1], sequence.ops[2]);
  EXPECT_EQ(stuck(program), (StuckProgram{true, true, true}));
}

// Class 0 sums, then sends; class 1 receives, then sums.
TEST(Meetings, OneQueueAlsoHoldsTheCollectivesOfTheComputeLane) {
  Tables tables = two_stages();
  tables.segments.clear();
  tables.buckets.clear();
  const auto program = [&](const std::string& lane) {
    return program_of("class 0\n 0: +tokens " + lane + " over all\n 1: >0.0! @pp over pp hop 1\n" +
                          "class 1\n 0: <0.0 @pp over pp hop -1\n 1: +tokens " + lane +
                          " over all\n 2: d0.0 @compute\n",
                      tables);
  };
  EXPECT_EQ(stuck(program("@all")), (StuckProgram{.one_queue = true}));
  EXPECT_EQ(stuck(program("@compute")), (StuckProgram{.one_queue = true}));
  EXPECT_THAT(to_text(check(program("@compute"))),
              HasSubstr("op 0 (+tokens) of class 0 must meet op 1 (+tokens) of class 1 comes in its queue "
                        "after op 0 (<0.0) of class 1 must meet op 1 (>0.0!) of class 0 comes in its queue "
                        "after op 0 (+tokens) of class 0"));
}

// A line or ring of ranks that hand one value on.
Tables line(std::vector<std::uint32_t> class_of_rank) {
  Tables tables = two_stages();
  tables.segments.clear();
  tables.buckets.clear();
  tables.axes = {{"pp", static_cast<std::int64_t>(class_of_rank.size())}, {"dp", 1}};
  tables.class_of_rank = std::move(class_of_rank);
  return tables;
}

TEST(Meetings, MiddleStagesWithOtherNeighboursAreNotOneClass) {
  const std::string middle = "\n 0: <0.0 @pp over pp hop -1\n 1: >0.0! @pp over pp hop 1\n";
  const std::string first = "class 0\n 0: >0.0! @pp over pp hop 1\n";
  const std::string last = "\n 0: <0.0 @pp over pp hop -1\n 1: d0.0 @compute\n";
  const std::string one =
      to_text(check(program_of(first + "class 1" + middle + "class 2" + last, line({0, 1, 1, 2}))));
  EXPECT_THAT(one,
              HasSubstr("class 1 is not symmetric: in op 0 (<0.0) rank 1 meets class 0, but rank 2 meets "
                        "class 1\n"));
  EXPECT_THAT(one, HasSubstr("class 1 is not symmetric: in op 1 (>0.0!) rank 1 meets class 1, but rank 2 "
                             "meets class 2\n"));
  EXPECT_THAT(one, Not(HasSubstr("nobody sends")));
  const std::string two = to_text(check(
      program_of(first + "class 1" + middle + "class 2" + middle + "class 3" + last, line({0, 1, 2, 3}))));
  EXPECT_THAT(two, Not(HasSubstr("symmetric")));
  EXPECT_THAT(two, Not(HasSubstr("stuck")));
}

TEST(Meetings, ARingOfThreeIsNotOfTwoClasses) {
  const std::string ops = "\n 0: >0.0! @pp over pp hop 1\n 1: <0.0 @pp- over pp hop -1\n";
  const std::string problems = to_text(check(program_of("class 0" + ops + "class 1" + ops, line({0, 1, 0}))));
  EXPECT_THAT(problems,
              HasSubstr("class 0 is not symmetric: in op 0 (>0.0!) rank 0 meets class 1, but rank 2 "
                        "meets class 0\n"));
  EXPECT_THAT(to_text(check(program_of("class 0" + ops, line({0, 0, 0})))), Not(HasSubstr("symmetric")));
}

TEST(Meetings, RanksOfAClassHaveGroupsOfTheSameClasses) {
  Tables tables = two_stages();
  tables.class_of_rank = {0, 1, 0, 0};  // over dp: ranks 0 and 1, ranks 2 and 3
  tables.segments.clear();
  tables.buckets.clear();
  const Program program =
      program_of("class 0\n 0: +tokens @dp over dp\nclass 1\n 0: +tokens @dp over dp\n", tables);
  EXPECT_EQ(
      to_text(check(program)),
      "class 0, class 0 is not symmetric: in op 0 (+tokens) rank 0 meets class 0 and 1, but rank 2 meets "
      "class 0\n");
}

// Two classes side by side on tp, of which the second computes its micro-batches in the other order.
TEST(Meetings, RanksThatCommunicateWhileTheyComputeHaveOneComputeOrder) {
  Tables tables = example_tables({.num_blocks = 0, .num_micro = 2});
  tables.axes = {{"dp", 2}, {"tp", 2}};
  const auto tp = static_cast<std::int16_t>(tables.axis_sets.size());
  tables.axis_sets.push_back({"tp", {1}});
  const auto program = [&] {
    Program out = data_parallel(tables, {});
    out.tables.class_of_rank = {0, 1, 0, 1};
    out.classes.push_back(out.classes[0]);
    for (Op& op : out.classes[1].ops)
      if (is_compute(op.what)) op.micro = 1 - op.micro;
    build_waits(out.classes[1], tables);
    return out;
  };
  EXPECT_EQ(to_text(check(program())), "");
  // Over dp: each class for itself.
  tables.units[1].pieces[0].collectives = {{CollectiveKind::all_reduce, 0, 8}};
  EXPECT_EQ(to_text(check(program())), "");
  tables.units[1].pieces[0].collectives.clear();
  tables.units[1].pieces[0].backward_collectives = {{CollectiveKind::all_reduce, tp, 8}};
  EXPECT_EQ(
      to_text(check(program())),
      "class 0, op 1 (0F0) computes while class 1 is at op 1 (0F1), though they share groups over tp and "
      "communicate while they compute\n");
  Program equal = data_parallel(tables, {});
  equal.tables.class_of_rank = {0, 1, 0, 1};
  equal.classes.push_back(equal.classes[0]);
  EXPECT_EQ(to_text(check(equal)), "");
}

TEST(Meetings, ARankThatComputesMoreThanItsPeersIsNamed) {
  Tables tables = example_tables({.num_blocks = 0, .num_micro = 1});
  tables.axes = {{"dp", 2}, {"tp", 2}};
  const auto tp = static_cast<std::int16_t>(tables.axis_sets.size());
  tables.axis_sets.push_back({"tp", {1}});
  tables.units[1].pieces[0].collectives = {{CollectiveKind::all_reduce, tp, 8}};
  Program program = data_parallel(tables, {.residency = {.overlap = false}});
  program.tables.class_of_rank = {0, 1, 0, 1};
  program.classes.push_back(program.classes[0]);
  auto& ops = program.classes[0].ops;
  ASSERT_EQ(word(ops[3], tables), "1B0");
  ops[3].what = OpKind::backward_input;
  ops.insert(ops.begin() + 4, {.what = OpKind::backward_weight, .item = 1, .micro = 0});
  EXPECT_THAT(to_text(check(program)), HasSubstr("op 3 (1I0) computes while class 1 is at op 3 (1B0)"));
  program.classes[0] = program.classes[1];
  program.classes[0].ops.push_back({.what = OpKind::forward, .item = 0, .micro = 0});
  EXPECT_THAT(to_text(check(program)),
              HasSubstr("computes what class 1 does not, though they share groups over tp"));
}

}  // namespace
}  // namespace tessera::program
