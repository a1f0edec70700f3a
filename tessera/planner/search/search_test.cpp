// The search against every layout one by one, and what a plan says. About five seconds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/planner/search/answer.hpp"
#include "tessera/planner/search/bound.hpp"
#include "tessera/planner/testing/trials.hpp"
#include "tessera/spec/problems.hpp"

namespace tessera::planner {
namespace {

using testing::HasSubstr;
using testing::Not;

spec::Run seven_billion() {
  spec::Run run;
  run.model.layers = 32, run.model.hidden = 4096, run.model.heads = run.model.kv_heads = 32,
  run.model.ffn = 11008;
  run.model.vocab = 32000, run.model.sequence = 4096;
  run.training.global_batch = 256;
  run.layout.precision = spec::Precision::bf16;
  return run;
}

TEST(Search, EveryLayoutIsPricedOrLeftForAReason) {
  const Cluster cluster = read_cluster("H100-80GB-SXM:32");
  const Limits limits{.memory_bytes = usable_bytes(cluster.slowest().device)};
  const Found found = search(seven_billion(), cluster, limits, {});
  const Certificate& c = found.certificate;
  EXPECT_EQ(c.considered, c.priced + c.num_pruned());
  ASSERT_EQ(found.fitting.size(), limits.keep);
  for (std::size_t i = 1; i < found.fitting.size(); ++i)
    EXPECT_LE(found.fitting[i - 1].least_seconds, found.fitting[i].least_seconds);
  for (const Candidate& candidate : found.fitting) {
    EXPECT_EQ(candidate.layout.ranks(), 32);
  }
}

TEST(Search, BoundsLeaveOutNothingThatCounts) {
  const Cluster cluster = read_cluster("H100-80GB-SXM:16");
  Limits limits{.memory_bytes = usable_bytes(cluster.slowest().device), .keep = 4};
  const Found pruned = search(seven_billion(), cluster, limits, {});
  limits.keep = 1 << 20;  // nothing is slower than the slowest that is kept
  const Found all = search(seven_billion(), cluster, limits, {});
  EXPECT_GT(all.certificate.priced, pruned.certificate.priced);
  for (std::size_t i = 0; i < pruned.fitting.size(); ++i)
    EXPECT_EQ(pruned.fitting[i].least_seconds, all.fitting[i].least_seconds);
}

TEST(Plan, OfASmallClusterIsARunThatTrainTakes) {
  const spec::Run run = seven_billion();
  const Cluster cluster = read_cluster("H100-80GB-SXM:8");
  const Plan made = plan(run, cluster, Fit(), {.tokens = 1e9, .answers = 3});
  ASSERT_FALSE(made.answers.empty());
  const Answer& best = made.answers.front();
  const spec::Run planned = run_of(run, made, best);
  EXPECT_TRUE(spec::problems(planned, spec::any_build()).empty());
  EXPECT_EQ(planned.layout.ranks(), 8);
  EXPECT_LE(best.refined.most_bytes(), made.limit_bytes);
  EXPECT_GT(best.mfu, 0.2);
  EXPECT_LT(best.mfu, 0.8);
  EXPECT_NEAR(best.length.days * 86400 * best.tokens_per_second * (1 - best.length.lost_to_failures), 1e9,
              1e3);
  EXPECT_LT(best.step.low, best.step.seconds);
  EXPECT_THAT(to_text(made, true), HasSubstr("where the time of the best goes"));
  for (std::size_t i = 1; i < made.answers.size(); ++i)
    EXPECT_THAT(made.answers[i].why_it_loses, HasSubstr("%"));
  const Plan same = as_it_is(planned, cluster, Fit(), {});
  EXPECT_NEAR(same.answers.front().step.seconds, best.step.seconds, 1e-9);
}

// A billion parameters on eight devices that just hold them.
spec::Run small() {
  spec::Run run;
  run.model.layers = 8, run.model.hidden = 2048, run.model.heads = run.model.kv_heads = 16,
  run.model.ffn = 8192;
  run.model.vocab = 32000, run.model.sequence = 2048;
  run.training.global_batch = 32;
  run.layout.precision = spec::Precision::bf16;
  return run;
}

Cluster tight(double gigabytes) {
  Cluster out = read_cluster("H100-80GB-SXM:8");
  out.nodes.front().device.memory_gb = gigabytes;
  return out;
}

TEST(Bound, IsNoMoreThanWhatIsSimulated) {
  const Cluster cluster = tight(9);
  const Limits limits{.memory_bytes = usable_bytes(cluster), .keep = 200};
  const spec::Run run = on_devices(small(), cluster);
  const Outcome many =
      best_first(run, search(run, cluster, limits, {}), cluster, limits, Fit(), {.least = 60});
  ASSERT_GT(many.fitting.size(), 10u);
  for (const Refined& one : many.fitting)
    EXPECT_GT(one.seconds, 0.98 * one.candidate.least_seconds) << layout_text(one.run.layout);
}

// Dense weights and those of experts are gathered and reduced at the same time, and gathers do not wait for
// reductions.
TEST(Bound, AddsNoLanesThatAreBusyAtTheSameTime) {
  const Cluster cluster = read_cluster("H100-80GB-SXM:32");
  spec::Run run = small();
  run.model.experts = 8, run.model.experts_per_token = 2, run.model.expert_ffn = 8192;
  run.training.global_batch = 128;
  run = on_devices(run, cluster);
  run.layout.dp_shard = 32, run.layout.dp_replicate = 1;
  for (const int zero : {1, 2, 3})
    for (const std::int64_t micro_batch : {1, 2}) {
      run.layout.zero = zero, run.layout.micro_batch = micro_batch;
      const Refined one = refine_one(run, cluster, Fit());
      Bound bound(run, cluster, {});
      EXPECT_GT(one.seconds, bound.seconds(one.candidate)) << layout_text(run.layout);
    }
}

TEST(Plan, SimulatesUntilNoLayoutCanBeFaster) {
  const Cluster cluster = tight(9);
  const Plan made = plan(small(), cluster, Fit(), {.tokens = 1e9, .answers = 8});
  const Plan more = plan(small(), cluster, Fit(), {.tokens = 1e9, .answers = 1, .effort = {.least = 60}});
  EXPECT_EQ(made.certificate.gap, 0);
  EXPECT_LT(made.certificate.simulated, 60);
  EXPECT_LE(made.answers.front().step.seconds, 1.01 * more.answers.front().step.seconds);
}

TEST(Plan, HowManyAnswersAreAskedForChangesTheirNumberAlone) {
  const Cluster cluster = tight(9);
  const Plan many = plan(small(), cluster, Fit(), {.tokens = 1e9, .answers = 8});
  for (std::size_t count = 1; count < many.answers.size(); count += 3) {
    const Plan few = plan(small(), cluster, Fit(), {.tokens = 1e9, .answers = count});
    ASSERT_EQ(few.answers.size(), count);
    EXPECT_EQ(few.certificate.simulated, many.certificate.simulated);
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_EQ(few.answers[i].refined.candidate.layout, many.answers[i].refined.candidate.layout);
  }
}

TEST(Plan, PartsOfAStepAddUpToIt) {
  const Plan made = plan(small(), tight(9), Fit(), {.tokens = 1e9});
  for (const Answer& answer : made.answers) {
    double sum = 0;
    for (const Part& part : answer.refined.parts) sum += part.seconds;
    EXPECT_NEAR(sum, answer.step.seconds, 1e-9);
  }
  EXPECT_THAT(made.answers.back().why_it_loses, HasSubstr("the rest"));
}

TEST(Plan, KeepsWhatIsPinnedOrRefusesIt) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(pin_violation(1, i), "") << i;
}

// bench/planner/trials.cpp has 300.
TEST(Plan, MoreOfAnythingIsNoSlower) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(monotone_violation(1, i), "") << i;
}

TEST(Plan, OfALayoutThatDoesNotFitIsNotTheBest) {
  spec::Run run = seven_billion();
  run.layout.dp_replicate = 8;
  const Plan made = as_it_is(run, read_cluster("H100-80GB-SXM:8"), Fit(), {});
  EXPECT_FALSE(made.fits());
  EXPECT_THAT(to_text(made, false), Not(HasSubstr("best of")));
  EXPECT_THAT(to_text(made, false), HasSubstr("does not fit"));
}

TEST(Plan, ThatCantFitSaysWhatIsMissing) {
  spec::Run run = seven_billion();
  run.model.layers = 320, run.model.hidden = 16384, run.model.heads = run.model.kv_heads = 128,
  run.model.ffn = 65536;
  try {
    plan(run, read_cluster("H100-80GB-SXM:8"), Fit(), {});
    FAIL() << "it fits";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no layout of this model fits 8 devices"));
  }
}

TEST(Plan, MoreDevicesAreFaster) {
  const auto curve = scaled(seven_billion(), read_cluster("H100-80GB-SXM:8"), {}, {8, 16, 32, 64}, 1e9);
  ASSERT_EQ(curve.size(), 4u);
  for (std::size_t i = 1; i < curve.size(); ++i) EXPECT_LT(curve[i].step_seconds, curve[i - 1].step_seconds);
}

// About three seconds.
TEST(Plan, ForLessMoneyTakesFewerDevices) {
  Cluster cluster = read_cluster("H100-80GB-SXM:64");
  cluster.nodes.front().dollars_per_hour = 2;
  const auto planned = [&](Objective objective, double days) {
    return plan(seven_billion(), cluster, Fit(),
                {.tokens = 1e12, .answers = 1, .objective = objective, .within_days = days});
  };
  const Plan fastest = planned(Objective::time, 0), cheapest = planned(Objective::cost, 0),
             fewest = planned(Objective::devices, 0);
  EXPECT_EQ(fastest.cluster.devices(), 64);
  const auto of = [](const Plan& p) { return p.answers.front().length; };
  EXPECT_LT(of(cheapest).dollars, of(fastest).dollars);
  EXPECT_LE(fewest.cluster.devices(), cheapest.cluster.devices());
  EXPECT_EQ(fewest.cluster.devices(), fewest.sizes.front().devices);
  const auto row = std::ranges::find(cheapest.sizes, cheapest.cluster.devices(), &Scaled::devices);
  EXPECT_DOUBLE_EQ(row->length.dollars, of(cheapest).dollars);
  const double days = 1.2 * of(fastest).days;
  const Plan in_time = planned(Objective::cost, days);
  EXPECT_LE(of(in_time).days, days);
  EXPECT_GT(in_time.cluster.devices(), 32);
  EXPECT_THAT(to_text(in_time, false), HasSubstr("on the front"));
  EXPECT_THROW(planned(Objective::cost, 0.1 * of(fastest).days), UserError);
}

TEST(Cluster, APartOfItTakesNodesInOrder) {
  const Cluster mixed = parse_cluster(
      "[new]\ndevice = \"H100-80GB-SXM\"\ncount = 2\n[old]\ndevice = \"A100-80GB-SXM\"\ncount = 2\n",
      "mixed");
  EXPECT_EQ(sized(mixed, 4).devices(), 4);
  EXPECT_EQ(sized(mixed, 4).nodes.size(), 1u);
  EXPECT_EQ(sized(mixed, 16).slowest().device.name, "H100-80GB-SXM");
  EXPECT_EQ(sized(mixed, 24).devices(), 24);
  EXPECT_EQ(sized(mixed, 24).slowest().device.name, "A100-80GB-SXM");
  EXPECT_EQ(sized(mixed, 64).devices(), 64);
}

}  // namespace
}  // namespace tessera::planner
