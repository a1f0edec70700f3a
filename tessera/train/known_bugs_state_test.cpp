// Would it be noticed if weights, moments or the order of samples depended on the layout? Rows of
// docs/known-bugs.md, as known_bugs_test.cpp has them, of what outlives steps: each test also trains with the
// defect.
#include "tessera/train/testing/saving_runs.hpp"

namespace tessera::train {
namespace {

constexpr int kSteps = 4;
constexpr double kEqual = 1e-10, kNoticed = 1e-6;

spec::Run with(const spec::Layout& layout) {
  spec::Run run = small_run(1);
  run.model.vocab = 60;
  run.layout = layout;
  run.layout.precision = spec::Precision::fp64;
  return run;
}

// Largest relative difference.
double difference(const std::vector<double>& found, const std::vector<double>& expected) {
  EXPECT_EQ(found.size(), expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    EXPECT_TRUE(std::isfinite(found[i]));
    worst = std::max(worst, std::abs(found[i] - expected[i]) / expected[i]);
  }
  return worst;
}

// Of each step, as rank 0 has them, where a rank's seed and samples may be its own.
using SeedOf = std::function<std::uint64_t(int rank)>;
using SourceOf = std::function<Source(int rank)>;
std::vector<double> losses_with(const spec::Run& run, const SeedOf& seed_of, const SourceOf& source_of) {
  std::vector<double> out;
  collective::run_ranks(static_cast<int>(run.layout.ranks()),
                        [&](const collective::Communicator& communicator) {
                          spec::Run own = run;
                          own.training.seed = seed_of(communicator.rank());
                          Session session(session_plan(own), communicator, source_of(communicator.rank()));
                          for (int i = 0; i < kSteps; ++i) {
                            const double loss = session.step().loss;
                            if (communicator.rank() == 0) out.push_back(loss);
                          }
                        });
  return out;
}

class KnownBugsOfState : public SavingRuns {
 protected:
  // From the newest checkpoint; `forgets` drops what the optimizer had.
  std::vector<double> go_on_once(const spec::Run& run, bool forgets) const {
    std::vector<double> out;
    collective::run_ranks(static_cast<int>(run.layout.ranks()),
                          [&](const collective::Communicator& communicator) {
                            Session session(session_plan(run), communicator, random_source(run.model));
                            resume(session, run, {.folder = folder_, .rank = communicator.rank()});
                            for (const auto& optimizer : session.optimizers())
                              for (const tensor::Tensor& state : optimizer.state())
                                if (forgets) state.zero_();
                            for (int i = 0; i < kSteps; ++i) {
                              const double loss = session.step().loss;
                              if (communicator.rank() == 0) out.push_back(loss);
                            }
                          });
    return out;
  }
};

TEST_F(KnownBugsOfState, Row19_InitialWeightsAndDropoutAreDrawnPerRank) {
  spec::Run run = with({.dp_shard = 2, .tp = 2, .zero = 3});
  run.model.dropout = 0.1;
  spec::Run alone = run;
  alone.layout = with({}).layout;
  const auto expected = losses(alone, kSteps);
  const auto of_all = [&](int) { return random_source(run.model); };
  EXPECT_LE(difference(losses_with(
                           run, [](int) { return 1; }, of_all),
                       expected),
            kEqual);
  EXPECT_GE(difference(losses_with(
                           run, [](int rank) { return 1 + rank; }, of_all),
                       expected),
            kNoticed);
}

TEST_F(KnownBugsOfState, Row24_SamplesAreCountedPerRank) {
  const spec::Run run = with({.dp_replicate = 2, .micro_batch = 2});
  const auto expected = losses(with({}), kSteps);
  const auto one_seed = [](int) { return 1; };
  const auto of_all = [&](int) { return random_source(run.model); };
  EXPECT_LE(difference(losses_with(run, one_seed, of_all), expected), kEqual);
  const auto of_rank = [&](int rank) -> Source {
    return [rank, next = 0, random = random_source(run.model)](auto samples, auto tokens, auto targets,
                                                               auto documents) mutable {
      std::vector<std::uint64_t> own;
      while (own.size() < samples.size()) own.push_back(static_cast<std::uint64_t>(1000 * rank + next++));
      random(own, tokens, targets, documents);
    };
  };
  EXPECT_GE(difference(losses_with(run, one_seed, of_rank), expected), kNoticed);
}

TEST_F(KnownBugsOfState, Row23_MomentsAreDroppedWhenTheLayoutChanges) {
  go_on(with({.dp_shard = 2, .tp = 2, .zero = 1}), kSteps);
  const spec::Run other = with({.pp = 2, .cp = 2, .zero = 1});
  auto expected = losses(with({}), 2 * kSteps);
  expected.erase(expected.begin(), expected.begin() + kSteps);
  EXPECT_LE(difference(go_on_once(other, false), expected), kEqual);
  EXPECT_GE(difference(go_on_once(other, true), expected), kNoticed);
}

}  // namespace
}  // namespace tessera::train
