#include "tessera/draw/layout/layout_picture.hpp"

#include <gmock/gmock.h>

#include "tessera/base/error.hpp"
#include "tessera/base/testing/golden.hpp"
#include "tessera/program/schedule/schedules.hpp"
#include "tessera/program/testing/examples.hpp"

namespace tessera::draw {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kGolden[] = "tessera/draw/golden/layout.svg";

// Each block's parameter is cut over a further axis of two ranks, along dim 0 and dim 1 in turn.
program::Tables cut(program::Tables tables) {
  tables.axes.push_back({"tp", 2});
  const auto axis = static_cast<std::int16_t>(tables.axes.size() - 1);
  tables.axis_sets.push_back({"tp", {axis}});
  const auto set = static_cast<std::int16_t>(tables.axis_sets.size() - 1);
  tables.class_of_rank.resize(2 * tables.class_of_rank.size());
  std::int16_t dim = 0;
  for (program::Bucket& bucket : tables.buckets) {
    const bool is_cut = bucket.name.starts_with("block");
    bucket.placement.push_back({axis, is_cut ? program::Placement::sharded : program::Placement::invariant});
    if (!is_cut) continue;
    bucket.cut_over = set;
    bucket.parameters[0].cuts = {{dim, 2}};
    dim = static_cast<std::int16_t>(1 - dim);
  }
  return tables;
}

LayoutPicture small_picture(int zero = 2) {
  LayoutPicture out = layout_picture(program::data_parallel(cut(program::example_tables(
                                         {.num_blocks = 2, .num_micro = 1, .dp = 2, .sharded = true}))),
                                     zero);
  out.title = "a < b";
  out.notes = {"A note."};
  return out;
}

TEST(LayoutPicture, PiecesOfAParameterAreItsElementsOnce) {
  const auto order = program::one_forward_one_backward({2, 1, 2, program::even_costs(2, 1, {1, 1, 1}, 0)});
  for (const LayoutPicture& picture :
       {small_picture(),
        layout_picture(program::example_pipeline({.dp = 4, .tied = true, .sharded = true}, order, {2, 2}),
                       3)})
    for (const HeldParameter& parameter : picture.parameters)
      for (const auto* pieces : {&parameter.pieces, &parameter.unsliced}) {
        std::vector<Box> boxes;
        for (const HeldPiece& piece : *pieces)
          boxes.insert(boxes.end(), piece.boxes.begin(), piece.boxes.end());
        EXPECT_EQ(tiling_problem(parameter.shape, boxes), std::nullopt) << parameter.name;
      }
}

TEST(LayoutPicture, APartIsCutOnceMoreIntoSlices) {
  const LayoutPicture picture = small_picture();
  const HeldParameter& block = picture.parameters.at(1);
  EXPECT_EQ(block.name, "block.0.weight");
  EXPECT_EQ(block.shape, (Shape{16, 8}));
  EXPECT_EQ(block.placements, "dp R in slices, tp S(0)");
  // Ranks are dp * 2 + tp.
  EXPECT_THAT(block.pieces,
              ElementsAre(HeldPiece{{{{0, 0}, {4, 8}}}, {0}}, HeldPiece{{{{4, 0}, {4, 8}}}, {2}},
                          HeldPiece{{{{8, 0}, {4, 8}}}, {1}}, HeldPiece{{{{12, 0}, {4, 8}}}, {3}}));
  const HeldParameter& embedding = picture.parameters.front();
  EXPECT_EQ(embedding.placements, "dp R in slices, tp I");
  EXPECT_THAT(embedding.pieces,
              ElementsAre(HeldPiece{{{{0, 0}, {4, 8}}}, {0, 1}}, HeldPiece{{{{4, 0}, {4, 8}}}, {2, 3}}));
  EXPECT_EQ(num_copies(embedding.pieces), 2);
  EXPECT_THAT(block.unsliced,
              ElementsAre(HeldPiece{{{{0, 0}, {8, 8}}}, {0, 2}}, HeldPiece{{{{8, 0}, {8, 8}}}, {1, 3}}));
  for (const HeldByRank& rank : picture.ranks) {
    EXPECT_EQ(rank.sliced, 5 * 32);
    EXPECT_EQ(rank.unsliced, 2 * 5 * 32);
  }
}

// What a rank keeps of its ten tensors of 32 elements with two data-parallel ranks, at each stage of ZeRO.
TEST(LayoutPicture, StagesOfZeroSliceOptimizerStateThenGradientsThenWeights) {
  const std::vector<std::vector<std::string>> groups = {{"weights, gradients, optimizer state"},
                                                        {"weights, gradients", "optimizer state"},
                                                        {"weights", "gradients, optimizer state"},
                                                        {"weights, gradients, optimizer state"}};
  const std::int64_t elements[4][3] = {{320, 320, 320}, {320, 320, 160}, {320, 160, 160}, {160, 160, 160}};
  for (const int zero : {1, 2, 3}) {
    const LayoutPicture picture = small_picture(zero);
    std::vector<std::string> names;
    for (const auto& group : picture.groups()) names.push_back(names_of(group));
    EXPECT_EQ(names, groups[static_cast<std::size_t>(zero)]) << zero;
    for (const Kept kept : kAllKept)
      EXPECT_EQ(picture.elements(picture.ranks[0], kept), elements[zero][static_cast<int>(kept)]) << zero;
  }
  EXPECT_NE(to_svg(small_picture(1)), to_svg(small_picture(3)));
}

TEST(LayoutPicture, ParametersThatAreCutAlikeFold) {
  const auto order = program::one_forward_one_backward({2, 1, 2, program::even_costs(2, 1, {1, 1, 1}, 0)});
  const LayoutPicture picture = layout_picture(program::example_pipeline({.dp = 2}, order, {3, 3}), 0);
  std::vector<std::string> found;
  for (const FoldedParameter& each : folded(picture))
    found.push_back(cat(each.name, " ", each.count, ": ", each.alike.front().which, ", ", each.alike.size()));
  EXPECT_THAT(found,
              ElementsAre("embedding.weight 1: on pp 0, 1", "block.*.weight 4: 0, 1 on pp 0; 2, 3 on pp 1, 1",
                          "head.weight 1: on pp 1, 1", "norms.*.weight 2: 0 on pp 0; 1 on pp 1, 1"));
}

TEST(LayoutPicture, LabelsRanksShortly) {
  const std::pair<std::vector<mesh::Rank>, const char*> cases[] = {{{3}, "3"},
                                                                   {{0, 4}, "0, 4"},
                                                                   {{0, 1, 2}, "0 to 2"},
                                                                   {{0, 8, 16}, "0, 8, 16"},
                                                                   {{0, 8, 16, 24}, "0, 8 .. 24"},
                                                                   {{0, 1, 4, 5}, "0, 1, 4, 5"}};
  for (const auto& [ranks, label] : cases) EXPECT_EQ(ranks_label(ranks), label);
}

TEST(LayoutPicture, SvgIsAsReviewed) {
  const std::string svg = to_svg(small_picture());
  EXPECT_EQ(golden(kGolden, svg), svg);
  EXPECT_THAT(svg, HasSubstr("<title>a &lt; b</title>"));
}

TEST(LayoutPicture, RefusesMoreRanksThanCanBeSeen) {
  LayoutPicture picture = small_picture();
  picture.ranks.resize(5000);
  EXPECT_THROW(to_svg(picture), UserError);
}

}  // namespace
}  // namespace tessera::draw
