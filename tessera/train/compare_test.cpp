#include "tessera/train/compare.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "tessera/plan/compile.hpp"
#include "tessera/train/small_runs.hpp"
#include "tessera/train/verify.hpp"

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
