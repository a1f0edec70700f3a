// pipedream-2bw: what a step computes with is one update behind, w(t+1) = w(t) - lr * g_t(w(max(t-1, 0))).
#include <gtest/gtest.h>

#include "tessera/base/testing/one_in.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/train/session.hpp"
#include "tessera/train/testing/small_runs.hpp"
#include "tessera/verify/verify.hpp"

namespace tessera::train {
namespace {

using tensor::Tensor;

spec::Run delayed_run() {
  spec::Run run = small_run(1);
  run.layout.precision = spec::Precision::fp64;
  run.layout.schedule = "pipedream-2bw"_schedule;
  run.model.layers = 4;
  return run;
}

TEST(Delayed, WeightsFollowTheFormula) {
  spec::Run run = delayed_run();
  run.training.optimizer = spec::Optimizer::sgd;
  run.training.learning_rate = run.training.min_learning_rate = 0.05;
  run.training.warmup_steps = 0;
  run.training.weight_decay = 0;
  run.training.clip_norm = 0;
  run.training.decay = spec::Decay::constant;
  spec::Run plain = run;
  plain.layout.schedule = "1f1b"_schedule;
  plain.training.learning_rate = plain.training.min_learning_rate = 0;  // it only tells gradients
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    Session delayed(session_plan(run), alone, random_source(run.model));
    Session gradients(session_plan(plain), alone, random_source(run.model), {.keep_gradients = true});
    std::vector<Tensor> now, before;
    for (auto& bucket : gradients.buckets()) now.push_back(bucket.shard().clone());
    before = now;
    for (int step = 0; step < 4; ++step) {
      for (std::size_t i = 0; i < now.size(); ++i) Tensor(gradients.buckets()[i].shard()).copy_(before[i]);
      delayed.step();
      gradients.step();
      before = now;
      for (std::size_t i = 0; i < now.size(); ++i) {
        now[i] = now[i].sub(gradients.buckets()[i].kept_gradient(), 0.05);
        const double error = delayed.buckets()[i].shard().sub(now[i]).abs().max().item<double>();
        EXPECT_LT(error, 1e-14) << "step " << step << ", " << delayed.buckets()[i].table().name;
      }
    }
  });
}

TEST(Delayed, EveryPipelineEqualsOneDevice) {
  OneIn takes(5);
  for (const std::int64_t pp : {1, 2, 3, 4})
    for (const std::int64_t zero : {0, 1})
      for (const bool tied : {false, true})
        for (const std::int64_t num_micro : {pp, 2 * pp + 1}) {
          if (!takes()) continue;
          spec::Run run = delayed_run();
          run.model.tied_embeddings = tied;
          run.layout.pp = pp;
          run.layout.zero = zero;
          run.layout.dp_shard = pp == 2 ? 2 : 1;
          run.layout.micro_batch = 1;
          run.training.global_batch = num_micro * run.layout.dp();
          const auto found = verify_on_threads(run);
          EXPECT_TRUE(found.passed()) << "pp " << pp << " zero " << zero << "\n" << to_text(found);
        }
}

}  // namespace
}  // namespace tessera::train
