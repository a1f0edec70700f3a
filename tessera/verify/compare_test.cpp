#include "tessera/verify/compare.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "tessera/plan/compile.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/train/testing/damaged.hpp"
#include "tessera/train/testing/small_runs.hpp"
#include "tessera/verify/verify.hpp"

namespace tessera::train {
namespace {

using testing::HasSubstr;

Outcome outcome(double scale) {
  Outcome out;
  out.losses = out.norms = {1.0};
  for (const char* name : {"a", "b", "c"}) {
    out.gradients[name] = tensor::zeros({4}, at::kDouble).add(*name == 'b' ? scale : 1.0);
    out.parameters[name] = tensor::zeros({4}, at::kDouble).add(1.0);
  }
  return out;
}

const std::vector<std::string> kOrder = {"a", "b", "c"};

TEST(Compare, FindsTheMultipleThatATensorIs) {
  for (const double scale : {0.5, 2.0, 0.0, -1.0}) {
    const auto found = compare(outcome(scale), outcome(1), kOrder);
    const auto* wrong = first_wrong(found, 1e-10);
    ASSERT_TRUE(wrong);
    EXPECT_EQ(wrong->what, "b");
    EXPECT_EQ(wrong->kind, "gradient");
    ASSERT_TRUE(wrong->ratio);
    EXPECT_NEAR(*wrong->ratio, scale, 1e-12);
    EXPECT_DOUBLE_EQ(worst_of(found), std::abs(scale - 1));
  }
}

TEST(Compare, ATensorThatIsNoMultipleHasNoRatio) {
  Outcome found = outcome(1);
  found.gradients["b"].select(0, 2).fill_(5.0);
  const auto comparisons = compare(found, outcome(1), kOrder);
  const auto* wrong = first_wrong(comparisons, 1e-10);
  ASSERT_TRUE(wrong);
  EXPECT_FALSE(wrong->ratio);
  EXPECT_EQ(wrong->found, 5);
  EXPECT_EQ(wrong->expected, 1);
}

TEST(Compare, TheFirstWrongGradientIsTheLastOfTheComputation) {
  Outcome found = outcome(3);
  found.gradients["a"].fill_(7.0);
  found.parameters["c"].fill_(7.0);
  EXPECT_EQ(first_wrong(compare(found, outcome(1), kOrder), 1e-10)->what, "b");
  found.losses = {2.0};
  EXPECT_EQ(first_wrong(compare(found, outcome(1), kOrder), 1e-10)->what, "loss of step 1");
  EXPECT_EQ(first_wrong(compare(outcome(1), outcome(1), kOrder), 1e-10), nullptr);
}

TEST(Compare, WhatIsNoNumberIsWorseThanAnyError) {
  Outcome found = outcome(1);
  found.gradients["a"].fill_(NAN);
  const auto comparisons = compare(found, outcome(1), kOrder);
  EXPECT_TRUE(std::isinf(worst_of(comparisons)));
  EXPECT_EQ(first_wrong(comparisons, 1e-10)->what, "a");
}

TEST(Compare, ANaNGradientWhereZeroIsExpectedIsWrong) {
  Outcome found = outcome(0);
  EXPECT_TRUE(compare(found, outcome(0), kOrder)[3].zero_in_theory);
  found.gradients["b"].select(0, 1).fill_(NAN);
  const auto comparisons = compare(found, outcome(0), kOrder);
  EXPECT_FALSE(comparisons[3].zero_in_theory);
  EXPECT_TRUE(std::isinf(worst_of(comparisons)));
  EXPECT_EQ(first_wrong(comparisons, 1e-10)->what, "b");
}

// A tensor, and the numbers, of a run that has overflowed.
Outcome overflowed(double scale = 1) {
  Outcome out = outcome(scale);
  out.losses = {NAN};
  out.norms = {INFINITY};
  out.evaluation = NAN;
  out.gradients["a"].select(0, 1).fill_(NAN);
  out.gradients["a"].select(0, 2).fill_(-INFINITY);
  return out;
}

TEST(Compare, NumbersThatAreNotFiniteInTheSameWayAreEqual) {
  const auto same = compare(overflowed(), overflowed(), kOrder);
  EXPECT_EQ(first_wrong(same, 1e-10), nullptr);
  EXPECT_EQ(worst_of(same), 0);
  for (const auto& c : same)
    EXPECT_EQ(c.is_finite, c.kind == "parameter" || (c.kind == "gradient" && c.what != "a")) << c.what;
  Outcome elsewhere = overflowed();
  elsewhere.gradients["a"].select(0, 3).fill_(NAN);
  EXPECT_EQ(first_wrong(compare(elsewhere, overflowed(), kOrder), 1e-10)->what, "a");
  Outcome finite = overflowed();
  finite.losses = {1.0};
  EXPECT_EQ(first_wrong(compare(finite, overflowed(), kOrder), 1e-10)->what, "loss of step 1");
  EXPECT_EQ(first_wrong(compare(overflowed(), finite, kOrder), 1e-10)->what, "loss of step 1");
}

TEST(Compare, WhatIsNotFiniteInOneTensorHidesNoErrorOfAnother) {
  const auto comparisons = compare(overflowed(2), overflowed(1), kOrder);
  ASSERT_NE(first_wrong(comparisons, 1e-10), nullptr);
  EXPECT_EQ(first_wrong(comparisons, 1e-10)->what, "b");
  EXPECT_DOUBLE_EQ(worst_of(comparisons), 1);
}

TEST(Compare, RanksMayShareANumberThatIsNotFinite) {
  EXPECT_TRUE(nearly_same(NAN, NAN));
  EXPECT_TRUE(nearly_same(INFINITY, INFINITY));
  EXPECT_TRUE(nearly_same(1, 1 + 1e-15));
  EXPECT_FALSE(nearly_same(1, 1 + 1e-9));
  EXPECT_FALSE(nearly_same(1, INFINITY)) << "what one rank sees when the sum of all is infinite";
  EXPECT_FALSE(nearly_same(1, NAN));
  EXPECT_FALSE(nearly_same(-INFINITY, INFINITY));
}

TEST(Compare, AParameterThatRoundingMovesIsListedAndNotJudged) {
  Outcome found = outcome(1e-17), expected = outcome(-1e-17);
  expected.learning_rates = 3e-3;
  expected.largest_gradients["b"] = 1e-17;
  found.parameters["b"].add_(2e-3);
  const auto judged = [&] { return compare(found, expected, kOrder)[6]; };
  ASSERT_EQ(judged().what, "b");
  EXPECT_TRUE(judged().zero_in_theory);
  EXPECT_GT(judged().error, 1e-3) << "listed";
  EXPECT_EQ(first_wrong(compare(found, expected, kOrder), 1e-10), nullptr);
  expected.largest_gradients["b"] = 0.1;
  EXPECT_FALSE(judged().zero_in_theory) << "a later step's gradient is no rounding";
  expected.largest_gradients["b"] = 1e-17;
  found.parameters["b"].add_(0.5);
  EXPECT_FALSE(judged().zero_in_theory) << "farther than updates can move it";
}

TEST(Compare, ARatioIsExplainedByTheAxisOfItsSize) {
  auto run = small_run(2);
  run.layout.dp_shard = 4;
  const auto tables = plan::compile(run).tables;
  EXPECT_THAT(cause_of(0.5, tables), HasSubstr("a sum over dp_replicate was left out"));
  EXPECT_THAT(cause_of(0.25, tables), HasSubstr("a sum over dp_shard was left out"));
  EXPECT_THAT(cause_of(4, tables), HasSubstr("summed over dp_shard"));
  EXPECT_THAT(cause_of(0, tables), HasSubstr("nothing of it arrived"));
  EXPECT_THAT(cause_of(5, tables), HasSubstr("no single axis"));
  EXPECT_THAT(cause_of(std::nullopt, tables), HasSubstr("no multiple"));
}

TEST(Compare, ADamagedSumIsToldWithTensorPlacementAndCause) {
  auto run = small_run(2);
  run.layout.zero = 1;
  run.layout.dp_replicate = 1;
  run.layout.dp_shard = 2;
  const auto tables = plan::compile(run).tables;
  // Every reduction is scaled: the head's gradient is the first that is twice what it should be.
  const Damaged damaged{tables.buckets.front().reduced_over,
                        {.harm = collective::Harm::scaled, .kind = collective::CallKind::reduce_scatter}};
  const auto found = verify_on_threads(run, damaged);
  EXPECT_FALSE(found.passed());
  EXPECT_THAT(found.fault, HasSubstr(computed_order(tables).back()));
  EXPECT_THAT(found.fault, HasSubstr("2.0000 of it"));
  EXPECT_THAT(found.fault, HasSubstr("dp_shard 2 R"));
  EXPECT_THAT(found.fault, HasSubstr("summed over dp_shard"));
}

}  // namespace
}  // namespace tessera::train
