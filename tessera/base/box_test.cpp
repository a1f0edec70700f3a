#include "tessera/base/box.hpp"

#include <gtest/gtest.h>

#include "tessera/base/random.hpp"

namespace tessera {
namespace {

TEST(Box, IntersectsAlongEachDim) {
  EXPECT_EQ(intersection({{0, 2}, {4, 4}}, {{3, 0}, {5, 3}}), (Box{{3, 2}, {1, 1}}));
  EXPECT_EQ(intersection({{0, 2}, {4, 4}}, {{4, 0}, {5, 3}}), std::nullopt);
}

TEST(Box, ARangeOfAMatrixIsTheEndOfARowWholeRowsAndTheStartOfARow) {
  const std::vector<Box> expected = {{{1, 3}, {1, 1}}, {{2, 0}, {3, 4}}, {{5, 0}, {1, 2}}};
  EXPECT_EQ(boxes_of_range({6, 4}, 7, 15), expected);
  EXPECT_EQ(boxes_of_range({6, 4}, 0, 24), (std::vector<Box>{{{0, 0}, {6, 4}}}));
  EXPECT_EQ(boxes_of_range({6, 4}, 5, 2), (std::vector<Box>{{{1, 1}, {1, 2}}}));
  EXPECT_EQ(boxes_of_range({6, 4}, 6, 4), (std::vector<Box>{{{1, 2}, {1, 2}}, {{2, 0}, {1, 2}}}));
  EXPECT_EQ(boxes_of_range({9}, 2, 3), (std::vector<Box>{{{2}, {3}}}));
  EXPECT_TRUE(boxes_of_range({6, 4}, 7, 0).empty());
}

TEST(Box, RandomRangesTileTheTensorAndKeepTheirElements) {
  for (std::uint64_t round = 0; round < 200; ++round) {
    const auto dice = [&](std::uint64_t what, std::int64_t sides) {
      return static_cast<std::int64_t>(random_bits(5, round, what) % static_cast<std::uint64_t>(sides));
    };
    Shape shape;
    for (std::uint64_t dim = 0; dim <= static_cast<std::uint64_t>(dice(0, 4)); ++dim)
      shape.push_back(1 + dice(10 + dim, 5));
    const std::int64_t all = num_elements(shape), first = dice(1, all),
                       end = first + dice(2, all - first + 1);
    std::vector<Box> boxes;
    const std::int64_t cuts[] = {0, first, end, all};
    for (int i = 0; i < 3; ++i) {
      std::int64_t next = cuts[i];
      for (const Box& box : boxes_of_range(shape, cuts[i], cuts[i + 1] - cuts[i])) {
        for_each_run(box, whole_box(shape), box, [&](const CopyRun& run) {
          EXPECT_EQ(run.from, next) << "round " << round;
          next += run.count;
        });
        boxes.push_back(box);
      }
      EXPECT_EQ(next, cuts[i + 1]) << "round " << round;
    }
    EXPECT_EQ(tiling_problem(shape, boxes), std::nullopt) << "round " << round;
  }
}

TEST(Box, RunsJoinWhatLiesSideBySideInBothMemories) {
  std::vector<CopyRun> runs;
  const auto note = [&](const CopyRun& run) { runs.push_back(run); };
  for_each_run({{1, 0}, {2, 4}}, {{0, 0}, {6, 4}}, {{1, 0}, {2, 4}}, note);
  EXPECT_EQ(runs, (std::vector<CopyRun>{{4, 0, 8}}));
  runs.clear();
  for_each_run({{1, 1}, {2, 2}}, {{0, 0}, {6, 4}}, {{1, 1}, {2, 2}}, note);
  EXPECT_EQ(runs, (std::vector<CopyRun>{{5, 0, 2}, {9, 2, 2}}));
}

TEST(Box, BlocksGoThroughABoxInItsOwnOrder) {
  const Box box{{2, 1, 3}, {3, 4, 5}};
  for (std::int64_t most = 1; most < 70; ++most) {
    std::int64_t next = 0;
    for_each_block(box, most, [&](const Box& block) {
      EXPECT_LE(block.elements(), most);
      for_each_run(block, box, block, [&](const CopyRun& run) {
        EXPECT_EQ(run.from, next);
        next += run.count;
      });
    });
    EXPECT_EQ(next, 60) << most;
  }
  EXPECT_EQ(elements_of_rows({3, 4, 5}, 47), 40);
  EXPECT_EQ(elements_of_rows({3, 4, 5}, 17), 15);
  EXPECT_EQ(elements_of_rows({3, 4, 5}, 3), 3);
  EXPECT_EQ(elements_of_rows({3, 4, 5}, 100), 60);
  std::int64_t scalars = 0;
  for_each_block({{}, {}}, 8, [&](const Box&) { ++scalars; });
  EXPECT_EQ(scalars, 1);
}

TEST(Box, HolesAndOverlapsOfATilingAreNamed) {
  EXPECT_EQ(tiling_problem({4, 2}, {{{0, 0}, {2, 2}}, {{3, 0}, {1, 2}}}), "pieces hold 6 of 8 elements");
  EXPECT_EQ(tiling_problem({4, 2}, {{{0, 0}, {2, 2}}, {{1, 1}, {1, 1}}, {{2, 0}, {2, 2}}}),
            "two pieces overlap");
  EXPECT_EQ(tiling_problem({4}, {{{0}, {2}}, {{1}, {2}}}),
            "two pieces overlap");  // as many elements as the tensor
  EXPECT_EQ(tiling_problem({2, 2}, {{{0, 0}, {1, 2}}, {{0, 0}, {2, 1}}}), "two pieces overlap");
  EXPECT_EQ(tiling_problem({}, {{{}, {}}, {{}, {}}}), "two pieces overlap");
  const Box vast{{0}, {1ll << 62}};
  EXPECT_EQ(tiling_problem({1ll << 62}, {vast, vast, vast}), "two pieces overlap");
}

TEST(Box, ManyColumnsSideBySideAreCheckedInTime) {
  constexpr std::int64_t kColumns = 100'000;
  std::vector<Box> boxes;
  for (std::int64_t column = 0; column < kColumns; ++column) boxes.push_back({{0, column}, {2, 1}});
  EXPECT_EQ(tiling_problem({2, kColumns}, boxes), std::nullopt);
  boxes.back().offset[1] = 0;
  EXPECT_EQ(tiling_problem({2, kColumns}, boxes), "two pieces overlap");
}

}  // namespace
}  // namespace tessera
