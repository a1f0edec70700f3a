// Defects of other systems' experts that are not in a program or a collective (docs/known-bugs.md). About 2
// s.
#include <gtest/gtest.h>

#include <mutex>
#include <numeric>

#include "tessera/base/testing/test_folder.hpp"
#include "tessera/data/byte_corpus.hpp"
#include "tessera/parallel/experts/router.hpp"
#include "tessera/train/testing/small_runs.hpp"

namespace tessera::train {
namespace {

spec::Run run_with_experts(const spec::Layout& layout) {
  spec::Run run = with_experts(small_run(1), 4);
  run.layout = layout;
  run.training.global_batch = 5;
  return run;
}

// A batch whose last positions are padding: they choose experts, and count in no load. Nor does what is
// evaluated between steps: the bias comes to the same bits.
TEST(KnownBugsOfExperts, Row25_PaddingAndEvaluationAreCounted) {
  auto run = run_with_experts({.dp_shard = 2, .ep = 2});
  run.model.balance = spec::Balance::bias;
  constexpr std::int64_t kPadded = 4;
  const Source padded = [&](auto samples, std::span<std::int64_t> tokens, std::span<std::int64_t> targets,
                            std::span<std::int64_t> documents) {
    random_source(run.model)(samples, tokens, targets, documents);
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (static_cast<std::int64_t>(i) % run.model.sequence >= run.model.sequence - kPadded)
        targets[i] = data::kIgnoredTarget, documents[i] = data::kPadding;
  };
  std::vector<std::vector<tensor::Tensor>> states;
  for (const bool evaluates : {false, true})
    collective::run_ranks(2, [&](const collective::Communicator& communicator) {
      Session session(session_plan(run), communicator, padded);
      for (int step = 0; step < 3; ++step) {
        session.step();
        const double counted = static_cast<double>(run.training.global_batch * run.model.experts_per_token *
                                                   (run.model.sequence - kPadded));
        for (const auto& load : session.expert_loads())
          EXPECT_EQ(std::accumulate(load.tokens.begin(), load.tokens.end(), 0.0), counted);
        if (evaluates) session.evaluate(random_source(run.model), 100, 3);
      }
      if (communicator.rank() == 0) states.push_back(durable(session));
    });
  ASSERT_EQ(states[0].size(), states[1].size());
  for (std::size_t i = 0; i < states[0].size(); ++i) EXPECT_TRUE(states[0][i].equal(states[1][i])) << i;
}

// What generation reads of the weights, and the order in which it does, are training's: in 16 bits too, a
// token chooses the same experts in both. A router in the precision of the weights chooses others.
TEST(KnownBugsOfExperts, Row32_GenerationChoosesOtherExperts) {
  auto run = run_with_experts({.tp = 2, .sequence_parallel = false, .ep = 2});
  run.layout.precision = spec::Precision::bf16;
  run.model.experts = 16;
  run.model.sequence = 64;
  run.layout.micro_batch = run.training.global_batch = 4;
  const TestFolder folder;
  run.training.record_choices = folder.path("choices");
  run.training.steps = 1;
  run.training.learning_rate = run.training.min_learning_rate = 0;
  std::mutex mutex;
  collective::run_ranks(2, [&](const collective::Communicator& communicator) {
    Session session(session_plan(run), communicator, random_source(run.model));
    session.record_choices();
    session.step();
    session.meet();
    const ChoiceReader trained(run.training.record_choices, run.model);
    model::ByLayer made;
    const auto elements = static_cast<std::size_t>(4 * run.model.sequence);
    std::vector<std::int64_t> tokens(elements), targets(elements), documents(elements), order(elements);
    const std::vector<std::uint64_t> samples = {0, 1, 2, 3};
    session.source()(samples, tokens, targets, documents);
    std::iota(order.begin(), order.end(), 0);
    const model::Batch batch{
        .samples = 4, .tokens_T = tensor::indices(tokens), .order_T = tensor::indices(order), .made = &made};
    session.logits(batch);
    const std::scoped_lock lock(mutex);
    for (const auto& [layer, rows] : made)
      for (std::int64_t row = 0; row < rows.size(0); ++row) {
        const std::int64_t place = rows[row][0].item<std::int64_t>();
        const auto expected = trained.read(static_cast<std::uint64_t>(place / run.model.sequence),
                                           static_cast<std::int64_t>(layer));
        for (std::int64_t k = 0; k < 2; ++k)
          EXPECT_EQ(rows[row][1 + k].item<std::int64_t>(),
                    expected[static_cast<std::size_t>(place % run.model.sequence * 2 + k)]);
      }
  });
  // Scores that differ by less than 16 bits keep: rounded to these, the lower expert would win.
  tensor::Tensor logits = tensor::zeros({1, 4}, at::kFloat).add_(1);
  logits.select(1, 3).fill_(1.001);
  const auto chosen = [](const tensor::Tensor& of) {
    return parallel::route(of, {}, {}).experts_TK.select(1, 0).item<std::int64_t>();
  };
  EXPECT_EQ(chosen(logits), 3);
  EXPECT_EQ(chosen(logits.to(at::kBFloat16).to(at::kFloat)), 0);
}

}  // namespace
}  // namespace tessera::train
