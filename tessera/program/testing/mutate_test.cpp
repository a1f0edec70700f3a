#include "tessera/program/testing/mutate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tessera/base/text.hpp"
#include "tessera/program/check/check.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/passes/generate.hpp"
#include "tessera/program/schedule/schedules.hpp"
#include "tessera/program/testing/examples.hpp"

namespace tessera::program {
namespace {

std::vector<Program> programs() {
  std::vector<Program> out;
  for (const std::int32_t num_micro : {1, 3})
    for (const bool resident : {true, false})
      for (const bool overlap : {true, false})
        for (const bool split : {true, false}) {
          Tables tables =
              example_tables({.num_micro = num_micro, .tied = num_micro == 1, .resident = resident});
          tables.axes.push_back({"tp", 1});
          tables.axis_sets.push_back({"tp", {1}});
          out.push_back(data_parallel(tables, {.residency = {.overlap = overlap}}, split));
        }
  return out;
}

// Whole and split backwards; one stage per rank, a loop and a V; tied weights at both ends, far from each
// other or not.
std::vector<Program> pipelines() {
  std::vector<Program> out;
  for (const bool tied : {true, false})
    for (const bool resident : {true, false}) {
      const Example example{.tied = tied, .resident = resident};
      out.push_back(example_pipeline(example, one_forward_one_backward({3, 1, 4, {}}), {2, 1, 2}));
      out.push_back(example_pipeline(example, zero_bubble_h1({2, 1, 3, {}}), {1, 3},
                                     {.residency = {.overlap = false}}));
      out.push_back(
          example_pipeline(example, interleaved({2, 2, 3, {}}), {1, 2, 1, 1}, {.receives_ahead = 1}));
      out.push_back(example_pipeline(example, zero_bubble_v({2, 2, 3, {}}), {1, 1, 1, 1}));
    }
  return out;
}

TEST(Checker, AcceptsLegalReorderings) {
  std::set<std::string> orders;
  for (const Program& program : programs()) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const Program other = legal_reordering(program, seed);
      ASSERT_EQ(to_text(check(other)), "") << "seed " << seed << "\n" << to_text(other);
      ASSERT_EQ(other.classes[0].ops.size(), program.classes[0].ops.size());
      orders.insert(to_text(other));
    }
  }
  EXPECT_GE(orders.size(), 600u);  // of 800: they are not the same program again and again
}

// Edits each program many times; the checker must name an op that is to blame. The first words of what was
// done.
void expect_refusals(const std::vector<Program>& programs, std::set<std::string>& verbs) {
  std::uint64_t seed = 0;
  for (const Program& program : programs)
    for (const std::uint64_t end = seed + 60; seed < end; ++seed) {
      const IllegalEdit edit = illegal_edit(program, seed);
      const std::string problems = to_text(check(edit.program));
      ASSERT_NE(problems, "") << edit.what << ", seed " << seed << "\n" << to_text(edit.program);
      const bool names_one = std::ranges::any_of(edit.blamed, [&](const std::string& blamed) {
        return problems.find(cat("(", blamed, ")")) != std::string::npos;
      });
      ASSERT_TRUE(names_one) << edit.what << ", seed " << seed << "\n" << problems;
      verbs.insert(edit.what.substr(0, edit.what.find(' ')));
    }
}

TEST(Checker, RefusesIllegalEditsAndNamesTheOp) {
  std::set<std::string> verbs;
  ASSERT_NO_FATAL_FAILURE(expect_refusals(programs(), verbs));
  EXPECT_EQ(verbs,
            (std::set<std::string>{"dropped", "repeated", "moved", "removed", "made", "let", "turned"}));
}

TEST(Checker, AcceptsLegalReorderingsOfPipelines) {
  std::set<std::string> orders;
  for (const Program& program : pipelines())
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      const Program other = legal_reordering(program, seed);
      ASSERT_EQ(to_text(check(other)), "") << "seed " << seed << "\n" << to_text(other);
      orders.insert(to_text(other));
    }
  EXPECT_GE(orders.size(), 400u);  // of 480
}

TEST(Checker, RefusesIllegalEditsOfPipelinesAndNamesTheOp) {
  std::set<std::string> verbs;
  ASSERT_NO_FATAL_FAILURE(expect_refusals(pipelines(), verbs));
  EXPECT_EQ(verbs, (std::set<std::string>{"dropped", "repeated", "moved", "removed", "made", "let", "turned",
                                          "led", "swapped"}));
}

TEST(Checker, RefusesIllegalEditsOfReorderedPrograms) {
  const std::vector<Program> all = programs();
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Program program = legal_reordering(all[seed % all.size()], seed);
    const IllegalEdit edit = illegal_edit(program, seed);
    ASSERT_FALSE(check(edit.program).empty()) << edit.what << ", seed " << seed << "\n"
                                              << to_text(edit.program);
  }
}

}  // namespace
}  // namespace tessera::program
