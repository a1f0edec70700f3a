// Does every family and precision compute what the plan says, whole or in halves, training or generating?
#include <gtest/gtest.h>

#include "tessera/model/cache.hpp"
#include "tessera/model/make/make.hpp"
#include "tessera/plan/describe.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/program/passes/generate.hpp"
#include "tessera/tensor/flop_count.hpp"
#include "tessera/train/testing/small_runs.hpp"

namespace tessera::train {
namespace {

using tensor::Tensor;

// The plan's description of a model can't drift from what the kernels do.
TEST(Families, KernelsDoTheProductsThatThePlanCounts) {
  auto tied = small_run(1), tied_gpt2 = small_gpt2_run(1), half = small_gpt2_run(1);
  tied.model.tied_embeddings = tied_gpt2.model.tied_embeddings = true;
  half.layout.precision = spec::Precision::fp16;
  std::vector<spec::Run> runs = {small_run(1), tied, small_gpt2_run(1), tied_gpt2, half};
  for (const auto& run : related_runs(1)) runs.push_back(run);
  for (const auto& run : runs) {
    const auto tables = plan::describe(run);
    double planned = 0, attention = 0;
    for (const auto& unit : tables.units)
      for (const auto& piece : unit.pieces)
        (piece.name == "attention" ? attention : planned) +=
            tables.num_micro * (piece.flops + (piece.name == "attention" ? 0 : piece.backward_flops));
    collective::run_ranks(1, [&](const collective::Communicator& alone) {
      Session session(session_plan(run), alone, random_source(run.model));
      const tensor::FlopCount count;
      session.step();
      EXPECT_EQ(static_cast<double>(count.products()), planned);
      // Forward: two products. Backward: five of the same size, since the kernel makes the scores once more.
      EXPECT_EQ(static_cast<double>(count.attention()), attention * 3.5);
    });
  }
}

// Weights are gathered again for a backward only if nothing holds those of the forward.
TEST(Families, TapesHoldNoGatheredWeights) {
  std::vector<spec::Run> runs = {small_run(1), small_gpt2_run(1)};
  for (const auto& run : related_runs(1)) runs.push_back(run);
  for (const auto& run : runs) {
    auto tables = plan::describe(run);
    std::vector<shard::FlatBucket> buckets;
    buckets.reserve(tables.buckets.size());
    for (auto& table : tables.buckets) {
      table.full_resident = false;
      buckets.emplace_back(table, 1).begin_full();
    }
    const std::vector<bool> all_units(tables.units.size(), true);
    parallel::ParallelContext context;
    for (std::int64_t position = 0; position < run.model.sequence; ++position)
      context.positions.push_back(position);
    const auto model = model::make(run.model, tables, {all_units, buckets, context});
    const Tensor tokens = tensor::zeros({run.model.sequence}, at::kLong);
    const model::Batch batch{.samples = 1, .tokens_T = tokens, .targets_T = tokens};
    std::vector<model::Tape> tapes(model.size());
    std::vector<model::Outcome> outcomes;  // with their graphs
    for (std::size_t unit = 0; unit < model.size(); ++unit) {
      std::vector<Tensor> inputs;
      if (unit > 0)
        for (const Tensor& value : outcomes.back().values)
          inputs.push_back(value.detach().requires_grad_(true));
      outcomes.push_back(
          model[unit]->forward(0, tables.units[unit].pieces.size(), inputs, batch, tapes[unit]));
    }
    for (auto& bucket : buckets) {
      const Tensor full = bucket.full();
      bucket.end_full();
      EXPECT_EQ(full.storage().use_count(), 1U) << "something else holds " << bucket.table().name;
    }
  }
}

TEST(Families, HalvesOfABackwardGiveTheBitsOfTheWhole) {
  for (const auto precision : {spec::Precision::fp32, spec::Precision::fp16}) {
    auto run = small_gpt2_run(1);
    run.model.dropout = 0.1;
    run.model.tied_embeddings = true;
    run.layout.precision = precision;
    const auto split = program::data_parallel(plan::describe(run), {}, true);
    collective::run_ranks(1, [&](const collective::Communicator& alone) {
      Session whole(session_plan(run), alone, random_source(run.model)),
          halves(session_plan(run, split), alone, random_source(run.model));
      for (int i = 0; i < 2; ++i) EXPECT_EQ(whole.step().loss, halves.step().loss);
      for (std::size_t i = 0; i < whole.buckets().size(); ++i)
        EXPECT_TRUE(tensor::bit_equal(whole.buckets()[i].shard(), halves.buckets()[i].shard()));
    });
  }
}

TEST(Families, DropoutChangesWhatIsTrainedAndNotWhatIsGenerated) {
  for (auto run : {small_run(1), small_gpt2_run(1)}) {
    const auto plain = losses(run, 2);
    run.model.dropout = 0.3;
    const auto dropped = losses(run, 2);
    EXPECT_NE(plain.front(), dropped.front());
    EXPECT_NEAR(dropped.front() / plain.front(), 1.0, 0.1);
    collective::run_ranks(1, [&](const collective::Communicator& alone) {
      const model::Batch batch{.samples = 1, .tokens_T = tensor::zeros({12}, at::kLong)};
      Session with(session_plan(run), alone, random_source(run.model));
      auto without_dropout = run;
      without_dropout.model.dropout = 0;
      Session without(session_plan(without_dropout), alone, random_source(run.model));
      EXPECT_TRUE(tensor::bit_equal(with.logits(batch), without.logits(batch)));
    });
  }
}

class Generation : public testing::TestWithParam<std::tuple<spec::Family, spec::Precision>> {};

TEST_P(Generation, WithACacheGivesTheLogitsOfTheWholeText) {
  const auto [family, precision] = GetParam();
  auto run = family == spec::Family::gpt2 ? small_gpt2_run(1) : small_run(1);
  run.model.family = family;
  run.layout.precision = precision;
  const double tolerance = precision == spec::Precision::bf16 ? 3e-2 : 1e-5;
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    Session session(session_plan(run), alone, random_source(run.model));
    const tensor::Tensor tokens = tensor::empty({2, 12}, at::kLong),
                         targets = tensor::empty({2, 12}, at::kLong);
    random_source(run.model)(std::vector<std::uint64_t>{4, 5}, {tokens.mutable_data_ptr<std::int64_t>(), 24},
                             {targets.mutable_data_ptr<std::int64_t>(), 24}, {});
    const auto logits = [&](std::int64_t first, std::int64_t count, model::Cache* cache) {
      const model::Batch batch{
          .samples = 2, .tokens_T = tokens.narrow(1, first, count).flatten(), .cache = cache};
      return session.logits(batch).view({2, count, run.model.vocab});
    };
    const tensor::Tensor whole = logits(0, 12, nullptr);
    model::Cache cache(12);
    const auto error = [&](std::int64_t first, std::int64_t count) {
      return logits(first, count, &cache).sub(whole.narrow(1, first, count)).abs().max().item<double>();
    };
    EXPECT_GT(whole.abs().max().item<double>(), 0.01);
    EXPECT_LT(error(0, 7), tolerance) << "the prompt";
    for (std::int64_t position = 7; position < 12; ++position) {
      cache.set_lengths({position, position}, at::kCPU);
      EXPECT_LT(error(position, 1), tolerance) << position;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(FamiliesAndPrecisions, Generation,
                         testing::Combine(testing::Values(spec::Family::llama, spec::Family::gpt2,
                                                          spec::Family::olmo2),
                                          testing::Values(spec::Precision::fp32, spec::Precision::bf16)));

}  // namespace
}  // namespace tessera::train
