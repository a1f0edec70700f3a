#include "tessera/program/schedule/walk_order.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/program/testing/short_forms.hpp"

namespace tessera::program {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// One forward, one backward: two ranks, two micro-batches.
Order two_ranks() {
  return {2, {0, 1}, {{f(0, 0), f(0, 1), b(0, 0), b(0, 1)}, {f(1, 0), b(1, 0), f(1, 1), b(1, 1)}}};
}

TEST(OrderWalk, StartsEveryTaskAsSoonAsItsInputIsThere) {
  const Walk found = walk(two_ranks(), even_costs(2, 1, {1, 1, 1}));
  EXPECT_THAT(found.stuck, IsEmpty());
  const std::vector<std::vector<Span>> expected = {{{0, 1}, {1, 2}, {4, 6}, {7, 9}},
                                                   {{1, 2}, {2, 4}, {4, 5}, {5, 7}}};
  EXPECT_EQ(found.tasks, expected);
  EXPECT_EQ(found.makespan, 9);
}

TEST(OrderWalk, TransfersTakeTheirTimeBesideTheTasks) {
  const Walk found = walk(two_ranks(), even_costs(2, 1, {1, 1, 1}, 0.5));
  EXPECT_EQ(found.tasks[1][0], (Span{1.5, 2.5}));
  EXPECT_EQ(found.tasks[0][2], (Span{5, 7}));
  EXPECT_EQ(found.makespan, 10);
}

TEST(OrderWalk, ReceivesNoMoreAheadThanTheBudgetAllows) {
  const Order order{3,
                    {0, 1},
                    {{f(0, 0), f(0, 1), f(0, 2), b(0, 0), b(0, 1), b(0, 2)},
                     {f(1, 0), f(1, 1), f(1, 2), b(1, 0), b(1, 1), b(1, 2)}}};
  const Costs costs{{{1, 1, 1}, {5, 1, 1}}};
  const auto starts = [&](std::uint32_t ahead) {
    const Walk found = walk(order, costs, {.receives_ahead = ahead});
    return std::vector<double>{found.transfers[0].span.start, found.transfers[1].span.start,
                               found.transfers[2].span.start};
  };
  EXPECT_EQ(starts(2), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(starts(1), (std::vector<double>{1, 2, 6})) << "when the task that takes the second one starts";
}

TEST(OrderWalk, AnOrderThatWaitsForItselfIsToldInWords) {
  Order order = two_ranks();
  std::swap(order.ranks[1][0], order.ranks[1][1]);
  const Walk found = walk(order, even_costs(2, 1, {1, 1, 1}));
  EXPECT_THAT(found.stuck, HasSubstr("rank 1 stands before 1B0, which needs 1F0"));
  EXPECT_THAT(found.stuck, HasSubstr("rank 0 stands before 0B0, which needs the gradient of stage 1"));
}

TEST(OrderWalk, NeighboursOnOneRankHandOverWithoutATransfer) {
  const Order order{1, {0, 0}, {{f(0, 0), f(1, 0), b(1, 0), b(0, 0)}}};
  const Walk found = walk(order, even_costs(1, 2, {2, 1, 1}));
  EXPECT_THAT(found.transfers, IsEmpty());
  EXPECT_EQ(found.makespan, 4);
}

TEST(OrderWalk, AForwardAndABackwardRunAsAPair) {
  const Order one{3, {0}, {{f(0, 0), b(0, 0), f(0, 1), b(0, 1), f(0, 2), b(0, 2)}}};
  const Walk found = walk(one, even_costs(1, 1, {1, 1, 1}), {.in_pairs = true});
  EXPECT_EQ(found.with_next[0], (std::vector<bool>{false, true, false, true, false, false}))
      << "the backward behind a forward needs it: the pair is that with the backward before";
  EXPECT_EQ(found.tasks[0][1], (Span{1, 4}));
  EXPECT_EQ(found.tasks[0][2], (Span{1, 4}));
  EXPECT_EQ(found.makespan, 9);
}

TEST(OrderWalk, APairThatCannotStartIsParted) {
  // The gradient that 0B0 needs comes only after 1F1, which needs 0F1.
  const Order order{2, {0, 1}, {{f(0, 0), f(0, 1), b(0, 0), b(0, 1)}, {f(1, 0), f(1, 1), b(1, 0), b(1, 1)}}};
  const Walk found = walk(order, even_costs(2, 1, {1, 1, 1}), {.in_pairs = true});
  EXPECT_THAT(found.stuck, IsEmpty());
  EXPECT_EQ(found.with_next[0], std::vector<bool>(4));
  EXPECT_EQ(found.with_next[1], (std::vector<bool>{false, true, false, false}));
}

TEST(PeakActivations, CountFromForwardToBackwardOrWeightHalf) {
  EXPECT_EQ(peak_activations(two_ranks()), (std::vector<std::int64_t>{2, 1}));
  const Order split{2,
                    {0},
                    {{f(0, 0),
                      {OpKind::backward_input, 0, 0},
                      f(0, 1),
                      {OpKind::backward_weight, 0, 0},
                      {OpKind::backward_input, 0, 1},
                      {OpKind::backward_weight, 0, 1}}}};
  EXPECT_EQ(peak_activations(split), (std::vector<std::int64_t>{2}));
}

}  // namespace
}  // namespace tessera::program
