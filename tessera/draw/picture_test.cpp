#include "tessera/draw/picture.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/draw/compare.hpp"
#include "tessera/draw/order_picture.hpp"
#include "tessera/draw/visits.hpp"
#include "tessera/program/schedule/schedules.hpp"
#include "tessera/program/testing/short_forms.hpp"
#include "tessera/simulate/report.hpp"

namespace tessera::draw {
namespace {

using program::even_pipeline;
using program::OpKind;

TEST(Picture, NumbersOfAPanelAreThoseOfTheSchedule) {
  const auto p = even_pipeline(4, 1, 8);
  const Panel panel = picture_of(program::one_forward_one_backward(p), p.costs, "").panels[0];
  EXPECT_EQ(panel.makespan, 33);
  EXPECT_NEAR(panel.bubble(), 3.0 / 11, 1e-12);
  EXPECT_EQ(panel.peak_held(), 4);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(panel.ranks[rank].name, cat("rank ", rank));
    EXPECT_EQ(panel.ranks[rank].busy, 24);
    EXPECT_EQ(panel.ranks[rank].peak_held, static_cast<double>(4 - rank));
    EXPECT_EQ(std::ranges::count(panel.ranks[rank].rows[0].bars, OpKind::backward, &Bar::what), 8);
  }
}

TEST(Picture, PeaksAgreeWithTheOrder) {
  for (const auto& [order, costs] :
       {std::pair(program::zero_bubble_h1(even_pipeline(4, 1, 8)), even_pipeline(4, 1, 8).costs),
        std::pair(program::interleaved(even_pipeline(4, 2, 9)), even_pipeline(4, 2, 9).costs),
        std::pair(program::dualpipe_v(even_pipeline(4, 2, 9)), even_pipeline(4, 2, 9).costs)}) {
    const Panel panel = picture_of(order, costs, "").panels[0];
    const auto peaks = program::peak_activations(order);
    for (std::size_t rank = 0; rank < peaks.size(); ++rank)
      EXPECT_EQ(panel.ranks[rank].peak_held, static_cast<double>(peaks[rank])) << "rank " << rank;
  }
}

TEST(Picture, NumbersAreThoseOfTheSimulation) {
  const auto p = even_pipeline(4, 2, 9, {1, 1, 1}, 0.1);
  const auto program = program::chain(program::zero_bubble_v(p), p.costs);
  const auto timeline = simulate::simulate(program, simulate::table_costs(program));
  const auto report = simulate::report(program, timeline);
  const Panel panel = predicted(program, timeline);
  EXPECT_EQ(panel.makespan, report.makespan);
  EXPECT_NEAR(panel.bubble(), report.bubble, 1e-12);
  for (std::size_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(panel.ranks[rank].peak_held, static_cast<double>(report.classes[rank].peak_activations));
}

TEST(Picture, StepsCountNeitherAsBusyNorForTheMakespan) {
  Panel panel;
  panel.ranks.push_back({.name = "rank 0",
                         .num_ranks = 3,
                         .rows = {{.lane = "compute",
                                   .bars = {{.word = "s0", .what = OpKind::step, .start = 2, .end = 9},
                                            {.word = "0F0", .start = 0, .end = 1}}}}});
  measure(panel);
  EXPECT_EQ(panel.makespan, 1);
  EXPECT_EQ(panel.end, 9);
  EXPECT_EQ(panel.bubble(), 0);
  EXPECT_EQ(panel.ranks[0].rows[0].bars[0].word, "0F0") << "bars are sorted by time";
}

TEST(Picture, AnActivationIsHeldFromForwardToWeightHalf) {
  Row row{.bars = {{.what = OpKind::forward, .start = 0, .end = 1},
                   {.what = OpKind::forward, .start = 1, .end = 2},
                   {.what = OpKind::backward_input, .start = 2, .end = 3},
                   {.what = OpKind::backward, .start = 3, .end = 4},
                   {.what = OpKind::backward_weight, .start = 4, .end = 5}}};
  EXPECT_EQ(held_activations(row), (std::vector<Level>{{0, 1}, {1, 2}, {4, 1}, {5, 0}}));
}

TEST(Picture, WhatEndsMakesRoomForWhatStartsThen) {
  const Row row{.bars = {{.what = OpKind::forward, .start = 0, .end = 1},
                         {.what = OpKind::backward, .start = 1, .end = 2},
                         {.what = OpKind::forward, .start = 2, .end = 3}}};
  for (const Level& level : held_activations(row)) EXPECT_LE(level.held, 1);
}

TEST(Picture, VirtualStagesAreFoundFromTheSegmentsOfRanks) {
  const auto looped = visits({{0, 1, 4, 5}, {2, 3, 6, 7}});
  EXPECT_EQ(looped[1].at(3), 0u);
  EXPECT_EQ(looped[1].at(6), 1u);
  const auto vee = visits({{0, 3}, {1, 2}});
  EXPECT_EQ(vee[0].at(3), 1u);
  EXPECT_EQ(vee[1].at(1), 0u);
  EXPECT_EQ(vee[1].at(2), 1u) << "the turn of a V";
  const auto plain = visits({{0, 1}, {2, 3}});
  EXPECT_EQ(plain[0].at(1), 0u);
  EXPECT_EQ(plain[1].at(3), 0u);
}

TEST(Picture, BytesHeldBeginWithWhatOutlivesTheStep) {
  const auto p = even_pipeline(2, 1, 2);
  auto program = program::chain(program::gpipe(p), p.costs);
  for (auto& bucket : program.tables.buckets) bucket.elements = 64;  // 4 bytes each, and 8 of state
  program.tables.values[0].bytes = 1000;
  const auto timeline = simulate::simulate(program, simulate::table_costs(program));
  const Lanes last = predicted(program, timeline, Held::bytes).ranks[1];
  EXPECT_EQ(last.held.front(), (Level{0, 64 * 12}));
  EXPECT_GE(last.peak_held, 64 * 12 + 2000) << "both micro-batches' values";
}

TEST(Picture, BarsSayWhatTheyWaitFor) {
  program::Program program;
  program.tables.segments.resize(1);
  program.tables.class_of_rank = {0, 0, 0};
  program.classes = {{.ops = {{.what = OpKind::forward, .micro = 0},
                              {.what = OpKind::backward, .micro = 0, .first_wait = 0, .num_waits = 1}},
                      .waits = {0}}};
  const Panel panel = predicted(program, {.classes = {{{0, 1}, {1, 3}}}, .makespan = 3});
  ASSERT_EQ(panel.ranks.size(), 1u);
  EXPECT_EQ(panel.ranks[0].num_ranks, 3);
  EXPECT_EQ(panel.ranks[0].rows[0].bars[1],
            (Bar{.word = "0B0", .what = OpKind::backward, .micro = 0, .start = 1, .end = 3, .waits = "0F0"}));
  EXPECT_THROW(predicted(program, {.classes = {{{0, 1}}}}), Bug);
}

std::vector<Traced> three_steps() {
  std::vector<Traced> out;
  for (const auto& [step, start, length] :
       {std::tuple(1, 100.0, 5.0), std::tuple(2, 110.0, 2.0), std::tuple(3, 120.0, 3.0)})
    for (const std::int64_t rank : {1, 0}) {
      out.push_back(
          {rank,
           "compute",
           step,
           0,
           {.word = "0F0", .micro = 0, .start = start + static_cast<double>(rank), .end = start + length}});
      out.push_back({rank,
                     "communication dp",
                     step,
                     std::nullopt,
                     {.word = "r0", .what = OpKind::reduce, .start = start + 2, .end = start + length}});
    }
  return out;
}

TEST(Picture, ATraceShowsTheStepOfMedianLengthFromItsStart) {
  const auto traced = three_steps();
  EXPECT_EQ(middle_step(traced), 3);
  const Panel panel = measured(traced, 3);
  ASSERT_EQ(panel.ranks.size(), 2u);
  EXPECT_EQ(panel.ranks[0].name, "rank 0");
  ASSERT_EQ(panel.ranks[1].rows.size(), 2u);
  EXPECT_EQ(panel.ranks[1].rows[0].lane, "compute");
  EXPECT_EQ(panel.ranks[1].rows[0].bars[0].start, 1);
  EXPECT_EQ(panel.ranks[1].rows[1].bars[0].end, 3);
  EXPECT_EQ(panel.makespan, 3);
}

TEST(Picture, PredictionAndMeasurementAreComparedByRankAndKind) {
  const auto traced = three_steps();
  Panel longer = measured(traced, 3), shorter = measured(traced, 2);
  shorter.ranks[0].num_ranks = 2;  // stands for both
  shorter.ranks.pop_back();
  const Comparison compared = compare(shorter, longer);
  EXPECT_EQ(compared.ranks, (std::vector<Compared>{{"makespan", 2, 3}, {"rank 0 busy", 2, 3}}));
  EXPECT_EQ(compared.kinds, (std::vector<Compared>{{"forward", 4, 5}, {"reduce", 0, 2}}));
  EXPECT_EQ(difference_text(compared.ranks[0]), "+50.0 %");
  EXPECT_EQ(difference_text({"", 4, 3}), "-25.0 %");
  EXPECT_EQ(difference_text({"", 0, 3}), "-");
}

TEST(Picture, TimesAndSizesAreShort) {
  EXPECT_EQ(time_text(25.5, Unit::of_costs), "25.5");
  EXPECT_EQ(time_text(33, Unit::of_costs), "33");
  EXPECT_EQ(time_text(0, Unit::seconds), "0 s");
  EXPECT_EQ(time_text(1.23456, Unit::seconds), "1.23 s");
  EXPECT_EQ(time_text(123.456, Unit::seconds), "123 s");
  EXPECT_EQ(time_text(0.0625, Unit::seconds), "62.5 ms");
  EXPECT_EQ(time_text(0.32, Unit::seconds), "320 ms");
  EXPECT_EQ(time_text(0.0000041, Unit::seconds), "4.1 us");
  EXPECT_EQ(held_text(9, Held::activations), "9");
  EXPECT_EQ(held_text(1536, Held::bytes), bytes_text(1536));
}

}  // namespace
}  // namespace tessera::draw
