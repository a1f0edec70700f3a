// Does the number of ranks change what is learnt? 50 steps in fp32 on 1, 2 and 4 ranks with the same global
// batch.
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {
namespace {

std::vector<double> losses(std::int64_t ranks) {
  spec::Run run;
  run.model = {
      .layers = 2, .hidden = 128, .heads = 4, .kv_heads = 2, .ffn = 344, .vocab = 256, .sequence = 64};
  run.data.path = "corpus/kjv.txt";
  run.training = {
      .steps = 50, .global_batch = 16, .learning_rate = 2e-3, .min_learning_rate = 2e-4, .warmup_steps = 10};
  run.layout.dp_replicate = ranks;
  run.layout.micro_batch = 2;
  std::vector<double> out;
  collective::run_ranks(static_cast<int>(ranks), [&](const collective::Communicator& communicator) {
    Session session(session_plan(run), communicator, corpus_source(run.data, run.model));
    for (int step = 0; step < 50; ++step) {
      const double loss = session.step().loss;
      if (communicator.rank() == 0) out.push_back(loss);
    }
  });
  return out;
}

TEST(Ranks, OneTwoAndFourLearnTheSame) {
  const auto one = losses(1);
  double worst = 0;
  for (const std::int64_t ranks : {2, 4}) {
    const auto many = losses(ranks);
    for (std::size_t step = 0; step < one.size(); ++step) {
      worst = std::max(worst, std::abs(many[step] / one[step] - 1));
      EXPECT_NEAR(many[step] / one[step], 1.0, 1e-4) << ranks << " ranks, step " << step + 1;
    }
  }
  EXPECT_LT(one.back(), one.front() - 1.5) << "it does not learn";
  std::printf("losses of 1, 2 and 4 ranks differ by at most %.1e relative over 50 steps\n", worst);
}

}  // namespace
}  // namespace tessera::train
