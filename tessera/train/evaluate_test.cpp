// Evaluation beside training, on threads as ranks. Takes about 2 s.
#include "tessera/train/evaluate.hpp"

#include <gtest/gtest.h>

#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/train/testing/small_runs.hpp"

namespace tessera::train {
namespace {

// Losses of the steps on rank 0.
std::vector<double> losses_of(const spec::Run& run, bool evaluates) {
  std::vector<double> out;
  collective::run_ranks(static_cast<int>(run.layout.ranks()), [&](const collective::Communicator& me) {
    Session session(session_plan(run), me, random_source(run.model));
    for (int step = 0; step < 4; ++step) {
      const double loss = session.step().loss;
      if (evaluates) session.evaluate(random_source(run.model), 100, 5);
      if (me.rank() == 0) out.push_back(loss);
    }
  });
  return out;
}

class Evaluation : public testing::TestWithParam<const char*> {};

TEST_P(Evaluation, LeavesEveryTrainingLossAsItIsBitForBit) {
  spec::Run run = small_run(1);
  run.model.dropout = 0.1;
  run.training.global_batch = 8;
  run.layout.micro_batch = 2;
  const std::string layout = GetParam();
  if (layout == "sharded") run.layout.dp_shard = 2, run.layout.zero = 3;
  if (layout == "delayed") run.layout.pp = 2, run.layout.schedule = "pipedream-2bw"_schedule;
  if (layout == "offloaded")
    run.layout.dp_shard = 2, run.layout.zero = 1, run.layout.offload = "optimizer,parameters";
  EXPECT_EQ(losses_of(run, true), losses_of(run, false));
}

INSTANTIATE_TEST_SUITE_P(Layouts, Evaluation, testing::Values("alone", "sharded", "delayed", "offloaded"));

TEST(EvaluationAlone, DropsNothing) {
  spec::Run run = small_run(1);
  const auto loss_with = [&](double dropout) {
    double out = 0;
    run.model.dropout = dropout;
    collective::run_ranks(1, [&](const collective::Communicator& me) {
      Session session(session_plan(run), me, random_source(run.model));
      out = session.evaluate(random_source(run.model), 0, 3).front().sum;
    });
    return out;
  };
  EXPECT_EQ(loss_with(0.5), loss_with(0));
}

TEST(EvaluationAlone, WithoutTextIsRefused) {
  spec::Run run = small_run(1);
  run.evaluation.every = 2;
  EXPECT_THROW(held_out(run.data, run.model, run.evaluation), UserError);
}

}  // namespace
}  // namespace tessera::train
