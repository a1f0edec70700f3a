// Does the executor count what a model adds up as the program's numbers say? With units that are a line each.
#include "tessera/engine/executor.hpp"

#include <gmock/gmock.h>

#include "tessera/program/passes/generate.hpp"
#include "tessera/program/testing/examples.hpp"

namespace tessera::engine {
namespace {

using tensor::Tensor;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::Field;

// Four threes.
class Threes final : public model::Unit {
 public:
  model::Outcome forward(std::size_t, std::size_t, std::vector<Tensor>, const model::Batch&,
                         model::Tape& tape) override {
    return {.values = {tape.anchor().expand({4}).add(3)}, .losses = {}};
  }
};

// Their sum, and ten times their sum.
class TwoSums final : public model::Unit {
 public:
  model::Outcome forward(std::size_t, std::size_t, std::vector<Tensor> values, const model::Batch&,
                         model::Tape&) override {
    return {.values = {}, .losses = {values.at(0).sum(), values.at(0).mul(10).sum()}};
  }
};

TEST(Executor, CountsEveryLossAsItsOwn) {
  auto tables = program::example_tables({.num_blocks = 0, .num_micro = 2, .dp = 1});
  tables.numbers.push_back({"tenfold", program::Role::loss, {0}});
  const auto tenfold = static_cast<std::uint32_t>(tables.numbers.size() - 1);
  tables.segments.back().losses.push_back({.tokens = 0, .loss = tenfold});
  const program::Program program = program::data_parallel(tables, {});

  model::Model model;
  model.push_back(std::make_unique<Threes>());
  model.push_back(std::make_unique<TwoSums>());
  std::vector<shard::FlatBucket> buckets;
  std::vector<optim::BucketOptimizer> optimizers;
  buckets.reserve(program.tables.buckets.size());
  for (const program::Bucket& bucket : program.tables.buckets)
    optimizers.emplace_back(spec::Training(), buckets.emplace_back(bucket, 1)).make_state();
  const std::vector<collective::Group> groups(program.tables.axis_sets.size());
  shard::OffloadStore outside;
  const Parts parts{program.tables, program.classes[0], 0, groups, model, buckets, optimizers, outside};
  Executor executor(parts);

  for (int step = 0; step < 2; ++step) {  // sums begin anew
    executor.begin({.micro_batches = {{.samples = 1}, {.samples = 1}}, .valid_tokens = 8});
    const auto report = executor.finish();
    EXPECT_DOUBLE_EQ(report.loss, 3);
    EXPECT_THAT(
        report.losses,
        ElementsAre(AllOf(Field(&NamedLoss::name, "loss"), Field(&NamedLoss::mean, DoubleEq(3))),
                    AllOf(Field(&NamedLoss::name, "tenfold"), Field(&NamedLoss::mean, DoubleEq(30)))));
  }
}

}  // namespace
}  // namespace tessera::engine
