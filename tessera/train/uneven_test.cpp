// Data-parallel ranks with unequal numbers of micro-batches, and stages of unequal depth: each equals one
// device. About 12 s.
#include <gtest/gtest.h>

#include "tessera/base/text.hpp"
#include "tessera/train/testing/small_runs.hpp"
#include "tessera/verify/verify.hpp"

namespace tessera::train {
namespace {

using spec::Layout;

struct Uneven {
  Layout layout;
  const char* by_rank;
};

std::int64_t sum_of(const std::string& numbers) {
  std::int64_t out = 0;
  const auto counts = spec::split_numbers(numbers).value();
  for (const std::int64_t count : counts) out += count;
  return out;
}

void expect_uneven_equal(const spec::Run& base, const std::vector<Uneven>& cases) {
  References references;
  for (const Uneven& one : cases) {
    spec::Run run = base;
    run.layout = one.layout;
    run.layout.precision = spec::Precision::fp64;
    run.layout.micro_batches_by_rank = one.by_rank;
    run.training.global_batch = sum_of(one.by_rank) * run.layout.micro_batch;
    const auto found = verify_as_it_is(run, references);
    EXPECT_TRUE(found.passed()) << one.by_rank << "\n" << to_text(found);
  }
}

std::vector<Uneven> data_parallel_cases() {
  using enum spec::Recompute;
  std::vector<Uneven> out;
  for (std::int64_t zero = 0; zero <= 3; ++zero) {
    out.push_back(
        {Layout{.dp_replicate = zero == 0 ? 2 : 1, .dp_shard = zero == 0 ? 1 : 2, .zero = zero}, "3,1"});
    out.push_back({Layout{.dp_replicate = zero == 0 ? 2 : 1,
                          .dp_shard = zero == 0 ? 1 : 2,
                          .zero = zero,
                          .micro_batch = 2},
                   "1,2"});
    out.push_back({Layout{.dp_replicate = 2, .dp_shard = 2, .zero = zero}, "2,1,3,1"});
    out.push_back(
        {Layout{.dp_replicate = zero == 0 ? 3 : 1, .dp_shard = zero == 0 ? 1 : 3, .zero = zero}, "4,0,1"});
    out.push_back({Layout{.dp_replicate = zero == 0 ? 2 : 1,
                          .dp_shard = zero == 0 ? 1 : 2,
                          .zero = zero,
                          .recompute = full},
                   "1,4"});
  }
  return out;
}

std::vector<Uneven> pipeline_cases() {
  using enum spec::Recompute;
  std::vector<Uneven> out;
  for (const auto schedule : {"1f1b"_schedule, "gpipe"_schedule, "zb-h1"_schedule, "zb-v"_schedule})
    for (std::int64_t zero = 0; zero <= 2; zero += 2)
      out.push_back({Layout{.pp = 2,
                            .dp_replicate = zero == 0 ? 2 : 1,
                            .dp_shard = zero == 0 ? 1 : 2,
                            .zero = zero,
                            .schedule = schedule},
                     "5,3"});
  out.push_back({Layout{.pp = 2, .dp_shard = 2, .zero = 1, .schedule = "interleaved"_schedule}, "4,2"});
  out.push_back({Layout{.pp = 2, .dp_shard = 2, .zero = 1, .stages = "3,1"}, "4,2"});
  out.push_back({Layout{.pp = 2, .dp_replicate = 2, .stages = "1,3"}, "2,3"});
  out.push_back({Layout{.dp_shard = 2, .tp = 2, .zero = 1}, "3,1"});
  out.push_back({Layout{.dp_shard = 2, .tp = 2, .sequence_parallel = false, .zero = 2}, "3,1"});
  out.push_back({Layout{.dp_shard = 2, .cp = 2, .zero = 3}, "1,3"});
  out.push_back({Layout{.dp_shard = 2, .cp = 2, .cp_heads = 2, .zero = 1}, "1,3"});
  out.push_back({Layout{.pp = 2, .dp_shard = 2, .tp = 2, .zero = 1, .recompute = selective}, "3,4"});
  out.push_back({Layout{.pp = 2, .dp_shard = 2, .zero = 3, .offload = "optimizer"}, "3,2"});
  out.push_back({Layout{.pp = 1, .dp_replicate = 1}, "3"});
  out.push_back({Layout{.dp_shard = 4, .zero = 3}, "1,2,3,4"});
  return out;
}

TEST(Uneven, DataParallelRanksEqualOneDevice) { expect_uneven_equal(small_run(1), data_parallel_cases()); }
TEST(Uneven, PipelinesAndOtherAxesEqualOneDevice) {
  spec::Run run = small_run(1);
  run.model.vocab = 60, run.model.kv_heads = 2;  // which two ranks of tp share
  expect_uneven_equal(run, pipeline_cases());
}

TEST(Uneven, BlocksEqualOneDevice) {
  spec::Run run = small_run(1);
  run.model.vocab = 60, run.model.kv_heads = 2;
  using enum spec::TensorKind;
  expect_uneven_equal(run,
                      {{Layout{.dp_shard = 2, .tp = 4, .tp_kind = d2, .zero = 1, .micro_batch = 2}, "2,1"}});
}

TEST(Uneven, TiedTablesWithDropoutEqualOneDevice) {
  spec::Run run = small_gpt2_run(1);
  run.model.dropout = 0.2;
  run.model.tied_embeddings = true;
  expect_uneven_equal(
      run, {{Layout{.dp_shard = 2, .zero = 3}, "3,1"}, {Layout{.pp = 2, .dp_shard = 2, .zero = 1}, "2,4"}});
}

}  // namespace
}  // namespace tessera::train
