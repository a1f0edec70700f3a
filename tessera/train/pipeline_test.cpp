// Pipelines with what else a run may have; tests/pipelines goes through schedules and sizes.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "tessera/base/text.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/stages/staging.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/program/schedule/order_csv.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/train/testing/damaged.hpp"
#include "tessera/train/testing/small_runs.hpp"
#include "tessera/verify/verify.hpp"

namespace tessera::train {
namespace {

spec::Run pipeline_run(spec::Run run, std::int64_t pp, spec::Schedule schedule) {
  run.model.layers = 5;
  run.layout.pp = pp;
  run.layout.schedule = schedule;
  return run;
}

void expect_equal_to_one_device(const spec::Run& run, const std::string& name) {
  const auto verification = verify_on_threads(run);
  EXPECT_TRUE(verification.passed()) << name << "\n" << to_text(verification);
}

constexpr spec::Schedule kSome[] = {"1f1b"_schedule, "interleaved"_schedule, "zb-v"_schedule};

TEST(PipelineRuns, Gpt2WithTiedTablesAndDropoutEqualsOneDevice) {
  for (const auto schedule : kSome)
    for (const bool tied : {false, true})
      for (const std::int64_t pp : {2, 3}) {
        auto run = pipeline_run(small_gpt2_run(1), pp, schedule);
        run.model.tied_embeddings = tied;
        run.model.dropout = 0.2;
        expect_equal_to_one_device(run, cat("gpt2 ", spec::word(schedule), " pp ", pp, tied ? " tied" : ""));
      }
}

TEST(PipelineRuns, EmptyMicroBatchesCrossNoStage) {
  for (const auto schedule : kSome)
    for (const std::int64_t batch : {1, 3, 7}) {
      auto run = pipeline_run(small_run(2), 2, schedule);
      run.layout.micro_batch = 2;
      run.training.global_batch = batch;
      expect_equal_to_one_device(run, cat(spec::word(schedule), " batch ", batch));
    }
}

TEST(PipelineRuns, WithoutOverlapAndWithLittleReceivedAheadTheNumbersAreTheSame) {
  for (const auto schedule : kSome) {
    auto run = pipeline_run(small_run(2), 3, schedule);
    run.layout.overlap = false;
    run.layout.receive_ahead_mib = 0;
    run.training.optimizer = spec::Optimizer::sgd;
    expect_equal_to_one_device(run, spec::word(schedule));
  }
}

TEST(PipelineRuns, AUsersScheduleFileIsExecuted) {
  auto run = pipeline_run(small_run(1), 2, "zb-h1"_schedule);
  run.training.global_batch = 8;
  const std::string path = testing::TempDir() + "user.csv";
  std::ofstream(path) << program::to_csv(plan::stage(run).order);
  run.layout.schedule = "1f1b"_schedule;
  run.layout.schedule_file = path;
  expect_equal_to_one_device(run, "schedule file");
}

TEST(PipelineRuns, AValueThatIsNotSentIsNoticed) {
  const auto run = pipeline_run(small_run(1), 3, "1f1b"_schedule);
  const auto tables = plan::compile(run).tables;
  for (const auto set : {tables.values_over, tables.gradients_over})
    for (const std::int64_t call : {0, 1}) {
      const Damaged damaged{
          set, {.harm = collective::Harm::skipped, .kind = collective::CallKind::send, .only = call}};
      EXPECT_FALSE(verify_on_threads(run, damaged).passed()) << "set " << set << ", send " << call;
    }
}

TEST(PipelineRuns, AStepThatIsNotFiniteOnOneStageIsTakenOnNone) {
  const auto run = pipeline_run(small_run(1), 2, "zb-v"_schedule);
  collective::run_ranks(2, [&](const collective::Communicator& communicator) {
    Session session(session_plan(run), communicator, random_source(run.model));
    session.step();
    std::vector<tensor::Tensor> before;
    for (auto& bucket : session.buckets()) before.push_back(bucket.shard().clone());
    const auto element = session.buckets()[1].shard().select(0, 0);
    if (communicator.rank() == 1) element.fill_(std::numeric_limits<float>::infinity());
    EXPECT_FALSE(session.step().taken) << "rank " << communicator.rank();
    if (communicator.rank() == 1) element.copy_(before[1].select(0, 0));
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(tensor::bit_equal(before[i], session.buckets()[i].shard()));
    EXPECT_TRUE(session.step().taken);
  });
}

TEST(PipelineRuns, HalfPrecisionStaysAsCloseToOneStageAsItsRounding) {
  for (const auto precision : {spec::Precision::bf16, spec::Precision::fp16}) {
    auto one = pipeline_run(small_run(1), 1, "1f1b"_schedule);
    one.layout.precision = precision;
    auto three = pipeline_run(one, 3, "zb-h1"_schedule);
    const auto expected = losses(one, 3), found = losses(three, 3);
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i] / expected[i], 1.0, 1e-3);
  }
}

}  // namespace
}  // namespace tessera::train
