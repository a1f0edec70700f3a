#include "tessera/plan/stages/cuts.hpp"

#include <gtest/gtest.h>

#include "tessera/base/error.hpp"
#include "tessera/families/families.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/describe.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/program/ir/effects.hpp"

namespace tessera::plan {
namespace {

using program::CellKind;
using program::OpKind;
using program::Tables;

spec::Run small(spec::Recompute recompute, const std::string& pieces = "attention") {
  spec::Run run;
  run.model = {.layers = 2, .hidden = 8, .heads = 2, .kv_heads = 1, .ffn = 12, .vocab = 20, .sequence = 5};
  run.layout.micro_batch = 2;
  run.layout.recompute = recompute;
  run.layout.recompute_pieces = pieces;
  run.training.global_batch = 4;
  return run;
}

// "norm+qkv | attention* | out ...": stretches of a Llama block, recomputed ones starred.
std::string cut_text(const std::string& pieces) {
  const auto run = small(spec::Recompute::selective, pieces);
  const auto blocks = families::step_request(run).model.blocks;
  std::string out;
  std::size_t at = 0;
  const Cut cut = cuts(run.layout, blocks)[1];
  for (const Stretch& stretch : cut) {
    out += at == 0 ? "" : " | ";
    for (std::uint32_t i = 0; i < stretch.num_pieces; ++i)
      out += (i == 0 ? "" : " ") + blocks[1].pieces[at++].name;
    if (stretch.recomputed) out += "*";
  }
  return out;
}

TEST(Cuts, StretchesKeepNeighboursTogetherAndEndWithAValueThatIsReadLater) {
  EXPECT_EQ(cut_text("attention"), "norm+qkv | attention* | out norm+up gate down");
  EXPECT_EQ(cut_text("norm+qkv, attention"), "norm+qkv attention* | out norm+up gate down");
  EXPECT_EQ(cut_text("gate"), "norm+qkv attention out | norm+up | gate* | down");
  EXPECT_EQ(cut_text("attention,gate"), "norm+qkv | attention* | out | norm+up | gate* | down");
  EXPECT_EQ(cut_text("attention, out, norm+up"), "norm+qkv | attention out* | norm+up* | gate down");
  EXPECT_EQ(cut_text("norm+qkv,attention,out,norm+up,gate,down"),
            "norm+qkv attention out norm+up gate down*");
}

TEST(Cuts, ANameThatIsNoPieceIsToldWithThosePossible) {
  for (const auto& [pieces, word] : {std::pair{"atention", "atention"}, {" , ", "is empty"}}) try {
      describe(small(spec::Recompute::selective, pieces));
      FAIL() << pieces;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("norm+qkv, attention, out, norm+up, gate, down"),
                std::string::npos);
    }
}

TEST(Cuts, SegmentsReadAndWriteNamedValuesWithTheirOwnSizes) {
  const Tables tables = describe(small(spec::Recompute::selective));
  ASSERT_EQ(tables.segments.size(), 8u);
  const auto& open = tables.segments[1];
  const auto& attention = tables.segments[2];
  const auto& rest = tables.segments[3];
  using List = std::vector<std::uint32_t>;
  EXPECT_EQ(open.reads, List{0});
  EXPECT_EQ(attention.reads, open.writes);
  EXPECT_EQ(rest.reads, (List{attention.writes[0], 0}));
  EXPECT_EQ(open.ends, List{0});  // the stream's last backward is that of its first reader
  EXPECT_EQ(rest.ends, attention.writes);
  EXPECT_EQ(attention.buckets, List{});
  EXPECT_EQ(rest.buckets, open.buckets);
  EXPECT_FALSE(open.recomputed);
  EXPECT_TRUE(attention.recomputed);
  const auto& qkv = tables.values[open.writes[0]];
  EXPECT_EQ(qkv.name, "block.0.qkv");
  EXPECT_EQ(qkv.channels, 8 + 2 * 4);
  EXPECT_EQ(qkv.bytes, 2 * 5 * 16 * 4);
  EXPECT_EQ(tables.values[rest.writes[0]].name, "hidden.1");
  EXPECT_EQ(tables.segments[4].reads, rest.writes);
}

TEST(Cuts, OneSegmentPerBlockIsRecomputedInFullAndNeitherEmbeddingNorHead) {
  const Tables tables = describe(small(spec::Recompute::full));
  ASSERT_EQ(tables.segments.size(), 4u);
  EXPECT_EQ(tables.segments[1].num_pieces, 6u);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(tables.segments[i].recomputed, i == 1 || i == 2) << "segment " << i;
}

TEST(Cuts, WhatIsAValueAtACutIsNotOnTheTapeToo) {
  const auto held = [](spec::Family family, const std::string& pieces) {
    auto run = small(spec::Recompute::selective, pieces);
    run.model.family = family;
    if (family == spec::Family::gpt2) run.model.kv_heads = run.model.heads;
    const Tables cut = describe(run);
    std::int64_t bytes = 0;
    for (std::uint32_t s = 1; cut.segments[s].unit == 1; ++s) {
      bytes += bytes_of(program::Cell{CellKind::tape, s, 0}, cut);
      if (cut.segments[s + 1].unit == 1)
        bytes += bytes_of(program::Cell{CellKind::value, cut.segments[s].writes[0], 0}, cut);
    }
    run.layout.recompute = spec::Recompute::none;
    return bytes - bytes_of(program::Cell{CellKind::tape, 1, 0}, describe(run));
  };
  constexpr std::int64_t kTokens = 10, kFp32 = 4, kHidden = 8;
  // The fused product is no longer on the tape; what attention returns is made a second time by its
  // recomputation, which keeps it.
  EXPECT_EQ(held(spec::Family::gpt2, "attention"), kTokens * kHidden * kFp32);
  EXPECT_EQ(held(spec::Family::llama, "attention"), kTokens * kHidden * kFp32);
  // All values here were on the tape before.
  EXPECT_EQ(held(spec::Family::gpt2, "gelu"), 0);
  EXPECT_EQ(held(spec::Family::llama, "gate"), 0);
}

TEST(Cuts, StagesStandForTheSegmentsOfTheirUnits) {
  auto run = small(spec::Recompute::selective, "attention,gate");
  run.layout.pp = 2;
  run.layout.stages = "1,3";
  const auto program = compile(run);
  EXPECT_EQ(program.tables.segments.size(), 14u);
  std::size_t forwards[2] = {}, recomputes[2] = {};
  for (std::size_t c = 0; c < 2; ++c)
    for (const auto& op : program.classes[c].ops) {
      forwards[c] += op.what == OpKind::forward && op.micro == 0;
      recomputes[c] += op.what == OpKind::recompute && op.micro == 0;
    }
  EXPECT_EQ(forwards[0], 1u);
  EXPECT_EQ(forwards[1], 13u);
  EXPECT_EQ(recomputes[0], 0u);
  EXPECT_EQ(recomputes[1], 4u);
}

}  // namespace
}  // namespace tessera::plan
