#include "tessera/mesh/mesh.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tessera/base/error.hpp"

namespace tessera::mesh {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// 2 * (2*3) * 1 * 4 = 48 ranks; strides: pp 24, dp_replicate 12, dp_shard 4, cp 4, tp 1.
Mesh example() {
  return Mesh({{"pp", 2}, {"dp", {{"dp_replicate", 2}, {"dp_shard", 3}}}, {"cp", 1}, {"tp", 4}});
}

void expect_partition(const Mesh& mesh, const AxisSet& set) {
  const auto groups = set.groups();
  ASSERT_EQ(static_cast<std::int64_t>(groups.size()), set.num_groups());
  std::vector<int> seen(static_cast<std::size_t>(mesh.size()), 0);
  Rank first_before = -1;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    ASSERT_EQ(static_cast<std::int64_t>(groups[g].size()), set.size());
    EXPECT_GT(groups[g][0], first_before);
    first_before = groups[g][0];
    for (std::size_t c = 0; c < groups[g].size(); ++c) {
      const Rank rank = groups[g][c];
      ++seen[static_cast<std::size_t>(rank)];
      EXPECT_EQ(set.coordinate(rank), static_cast<std::int64_t>(c));
      EXPECT_EQ(set.group_index(rank), static_cast<std::int64_t>(g));
    }
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), mesh.size());
}

TEST(Mesh, TheLastAxisVariesFastest) {
  const Mesh mesh = example();
  EXPECT_EQ(mesh.size(), 48);
  EXPECT_THAT(mesh.coordinates(0), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(mesh.coordinates(1), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(mesh.coordinates(4), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(mesh.coordinates(47), ElementsAre(1, 5, 0, 3));
  for (Rank rank = 0; rank < mesh.size(); ++rank) EXPECT_EQ(mesh.rank(mesh.coordinates(rank)), rank);
}

TEST(Mesh, AFactorHasACoordinateOfItsOwn) {
  const Mesh mesh = example();
  const Rank rank = 24 + 1 * 12 + 2 * 4 + 3;
  EXPECT_EQ(mesh.along("pp").coordinate(rank), 1);
  EXPECT_EQ(mesh.along("dp").coordinate(rank), 5);
  EXPECT_EQ(mesh.along("dp_replicate").coordinate(rank), 1);
  EXPECT_EQ(mesh.along("dp_shard").coordinate(rank), 2);
  EXPECT_EQ(mesh.along("cp").coordinate(rank), 0);
  EXPECT_EQ(mesh.along("tp").coordinate(rank), 3);
  EXPECT_EQ(mesh.along("dp_replicate", "dp_shard").coordinate(rank), mesh.along("dp").coordinate(rank));
}

TEST(Mesh, PeersStandInOrderOfCoordinate) {
  const Mesh mesh = example();
  EXPECT_THAT(mesh.along("tp").peers(6), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(mesh.along("pp").peers(6), ElementsAre(6, 30));
  EXPECT_THAT(mesh.along("dp_shard").peers(17), ElementsAre(13, 17, 21));
  EXPECT_THAT(mesh.along("dp_replicate").peers(17), ElementsAre(5, 17));
  EXPECT_THAT(mesh.along("dp").peers(0), ElementsAre(0, 4, 8, 12, 16, 20));
}

TEST(Mesh, TheOrderOfASetIsRecorded) {
  const Mesh mesh({{"dp", 2}, {"tp", 3}});
  EXPECT_THAT(mesh.along("dp", "tp").peers(0), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(mesh.along("tp", "dp").peers(0), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_NE(mesh.along("dp", "tp"), mesh.along("tp", "dp"));
  for (Rank rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(mesh.along("dp", "tp").coordinate(rank), rank / 3 * 3 + rank % 3);
    EXPECT_EQ(mesh.along("tp", "dp").coordinate(rank), rank % 3 * 2 + rank / 3);
  }
}

TEST(Mesh, GroupsPartitionTheRanks) {
  const Mesh mesh = example();
  const std::vector<AxisSet> sets = {mesh.along(),           mesh.along("pp"),
                                     mesh.along("dp"),       mesh.along("dp_shard"),
                                     mesh.along("cp"),       mesh.along("tp", "pp"),
                                     mesh.along("dp", "cp"), mesh.along("dp_shard", "tp"),
                                     mesh.along("tp", "dp"), mesh.along("dp_replicate"),
                                     mesh.along_all()};
  for (const auto& set : sets) expect_partition(mesh, set);
  EXPECT_EQ(mesh.along().num_groups(), 48);
  EXPECT_EQ(mesh.along_all().num_groups(), 1);
  EXPECT_EQ(mesh.along_all().coordinate(31), 31);
}

TEST(Mesh, AnAxisOfSizeOneHasGroupsOfOne) {
  const Mesh mesh = example();
  EXPECT_THAT(mesh.along("cp").peers(9), ElementsAre(9));
  EXPECT_EQ(mesh.along("cp").num_groups(), 48);
  EXPECT_EQ(mesh.along("cp").neighbour(9, 5), 9);
  EXPECT_EQ(Mesh({{"dp", 1}}).size(), 1);
  EXPECT_EQ(Mesh({}).size(), 1);
}

TEST(Mesh, NeighboursFormARing) {
  const auto tp = example().along("tp");
  EXPECT_EQ(tp.neighbour(6, 1), 7);
  EXPECT_EQ(tp.neighbour(7, 1), 4);
  EXPECT_EQ(tp.neighbour(4, -1), 7);
  EXPECT_EQ(tp.neighbour(5, -9), 4);
  EXPECT_EQ(tp.member(6, 0), 4);
}

TEST(Mesh, ATensorAxisMayBeACube) {
  const Mesh mesh({{"dp", 2}, {"tp", {{"row", 2}, {"col", 2}, {"depth", 2}}}});
  EXPECT_THAT(mesh.along("row").peers(8), ElementsAre(8, 12));
  EXPECT_THAT(mesh.along("col").peers(8), ElementsAre(8, 10));
  EXPECT_THAT(mesh.along("depth", "row").peers(15), ElementsAre(10, 14, 11, 15));
  EXPECT_EQ(mesh.along("tp").coordinate(13), 5);
}

TEST(Mesh, ExpertsSeeTheSameRanksRefolded) {
  const Mesh dense({{"pp", 2}, {"dp", 4}, {"cp", 2}, {"tp", 2}});
  const Mesh experts = dense.refolded("dp", "tp", {{"edp", 2}, {"ep", 8}, {"etp", 1}});
  EXPECT_EQ(to_text(experts), "pp 2, edp 2, ep 8, etp 1");
  EXPECT_EQ(experts.size(), dense.size());
  for (Rank rank = 0; rank < dense.size(); ++rank) {
    EXPECT_EQ(experts.along("pp").coordinate(rank), dense.along("pp").coordinate(rank));
    EXPECT_EQ(experts.along("edp", "ep", "etp").coordinate(rank),
              dense.along("dp", "cp", "tp").coordinate(rank));
  }
  EXPECT_THAT(experts.along("ep").peers(17), ElementsAre(16, 17, 18, 19, 20, 21, 22, 23));
  const Mesh with_tp = dense.refolded("dp", "cp", {{"edp", 1}, {"ep", 8}});
  EXPECT_THAT(with_tp.along("ep").peers(1), ElementsAre(1, 3, 5, 7, 9, 11, 13, 15));
  EXPECT_THAT(
      [&] {
        dense.refolded("dp", "cp", {{"edp", 3}, {"ep", 2}});
      },
      ThrowsMessage<UserError>(HasSubstr("dp to cp hold 8 ranks, (edp 3, ep 2) holds 6")));
  EXPECT_THROW(dense.refolded("cp", "dp", {{"ep", 8}}), UserError);
  EXPECT_THROW(dense.refolded("dp", "cp", {{"tp", 8}}), UserError);
}

TEST(Mesh, CarriesManyRanks) {
  const Mesh mesh({{"pp", 16}, {"dp", {{"dp_replicate", 64}, {"dp_shard", 16}}}, {"cp", 2}, {"tp", 8}});
  EXPECT_EQ(mesh.size(), 262'144);
  expect_partition(mesh, mesh.along("dp_shard", "cp"));
  const Mesh vast({{"dp", std::int64_t{1} << 40}, {"tp", 1024}});
  const Rank rank = (std::int64_t{5} << 40) + 77;
  EXPECT_EQ(vast.along("tp").coordinate(rank), 77);
  EXPECT_EQ(vast.along("dp").coordinate(rank), std::int64_t{5} << 30);
  EXPECT_EQ(vast.along("tp").peers(rank).back(), (std::int64_t{5} << 40) + 1023);
}

TEST(Mesh, ErrorsNameTheAxisAndTheNearestKnown) {
  const Mesh mesh = example();
  EXPECT_THAT([&] { mesh.along("dp_shrad"); },
              ThrowsMessage<UserError>(HasSubstr("no axis is called dp_shrad; did you mean dp_shard?")));
  EXPECT_THAT([&] { mesh.along("dp", "dp_shard"); },
              ThrowsMessage<UserError>(HasSubstr("(dp, dp_shard) has a part of dp_shard twice")));
  EXPECT_THAT([] { Mesh({{"dp", 2}, {"dp", 2}}); }, ThrowsMessage<UserError>(HasSubstr("called dp")));
  EXPECT_THAT([] { Mesh({{"tp", 0}}); }, ThrowsMessage<UserError>(HasSubstr("axis tp has size 0")));
  EXPECT_THROW(Mesh({{"dp", std::int64_t{1} << 40}, {"tp", std::int64_t{1} << 40}}), UserError);
  EXPECT_THAT(
      [&] {
        mesh.refolded("dp_shard", "tp", {{"ep", 12}});
      },
      ThrowsMessage<UserError>(HasSubstr("dp_shard is a factor")));
  EXPECT_THROW(mesh.along("tp").coordinate(48), Bug);
  EXPECT_THROW(mesh.coordinates(-1), Bug);
}

TEST(AxisSet, OnlySomeCoordinatesOfItsOutermostAxisFormGroups) {
  const Mesh mesh({{"pp", 3}, {"dp", 2}, {"tp", 2}});
  const AxisSet ends = mesh.along("pp", "dp").only({0, 2});
  EXPECT_EQ(ends.size(), 4);
  EXPECT_EQ(ends.num_groups(), 2);
  EXPECT_EQ(ends.peers(1), (std::vector<Rank>{1, 3, 9, 11}));
  EXPECT_EQ(ends.coordinate(9), 2);
  EXPECT_EQ(ends.member(9, 1), 3);
  EXPECT_EQ(ends.neighbour(11, 1), 1);
  EXPECT_EQ(ends.groups(), (std::vector<std::vector<Rank>>{{0, 2, 8, 10}, {1, 3, 9, 11}}));
  EXPECT_FALSE(ends.holds(5));
  EXPECT_EQ(ends.peers(5), (std::vector<Rank>{5}));
  EXPECT_THROW(ends.coordinate(5), Bug);
  // Without its first coordinate.
  const AxisSet late = mesh.along("pp").only({1, 2});
  EXPECT_EQ(late.peers(9), (std::vector<Rank>{5, 9}));
  EXPECT_EQ(late.groups().size(), 4u);
  for (const auto& wrong : std::vector<std::vector<std::int64_t>>{{}, {1, 1}, {2, 0}, {-1, 0}, {1, 3}})
    EXPECT_THROW(mesh.along("pp").only(wrong), Bug);
}

}  // namespace
}  // namespace tessera::mesh
