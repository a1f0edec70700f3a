// Recomputation with what else a run may have: the same numbers, and each segment computed again once per
// micro-batch.
#include <gtest/gtest.h>

#include "tessera/base/testing/one_in.hpp"
#include "tessera/base/text.hpp"
#include "tessera/families/families.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/describe.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/program/ir/work.hpp"
#include "tessera/program/memory/memory.hpp"
#include "tessera/program/passes/generate.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/tensor/flop_count.hpp"
#include "tessera/train/testing/equal.hpp"
#include "tessera/train/testing/small_runs.hpp"
#include "tessera/verify/verify.hpp"

namespace tessera::train {
namespace {

using program::OpKind;
using spec::Recompute;
using spec::Schedule;

constexpr Schedule kSchedules[] = {"gpipe"_schedule, "1f1b"_schedule, "interleaved"_schedule,
                                   "zb-h1"_schedule, "zb-v"_schedule, "dualpipe-v"_schedule,
                                   "bfs"_schedule};

struct Mode {
  Recompute recompute;
  const char* pieces;
};
constexpr Mode kFull{Recompute::full, "attention"}, kAttention{Recompute::selective, "attention"},
    kNarrow{Recompute::selective, "norm+qkv,out,norm+up"};

spec::Run with(spec::Run run, const Mode& mode) {
  run.layout.recompute = mode.recompute;
  run.layout.recompute_pieces = mode.pieces;
  return run;
}

spec::Run staged(spec::Run run, std::int64_t pp, Schedule schedule) {
  run.model.layers = 5;
  run.layout.pp = pp;
  run.layout.schedule = schedule;
  return run;
}

std::string recomputed_text(const spec::Run& run) {
  return cat(spec::word(run.layout.schedule), " pp ", run.layout.pp, " dp ", run.layout.dp(), " recompute ",
             spec::word(run.layout.recompute), " of ", run.layout.recompute_pieces);
}

TEST(Recompute, EveryScheduleEqualsOneDevice) {
  OneIn takes(5);
  for (const auto schedule : kSchedules)
    for (const std::int64_t pp : {1, 2, 3})
      for (const Mode& mode : {kFull, kNarrow}) {
        if (!takes()) continue;
        const spec::Run run = with(staged(small_run(pp == 2 ? 2 : 1), pp, schedule), mode);
        expect_equal_to_one_device(run, recomputed_text(run));
      }
}

TEST(Recompute, TiedTablesUnevenStagesAndEmptyMicroBatchesEqualOneDevice) {
  for (const Mode& mode : {kFull, kAttention}) {
    auto run = with(staged(small_gpt2_run(2), 3, "zb-v"_schedule), mode);
    run.model.tied_embeddings = true;
    run.model.dropout = 0.2;
    run.layout.stages = "1,2,1,1,1,1";
    run.training.global_batch = 5;
    expect_equal_to_one_device(run, recomputed_text(run));
  }
}

// Losses and every parameter after three steps.
struct TrainedWithCuts {
  std::vector<double> losses;
  std::vector<tensor::Tensor> parameters;
};

TrainedWithCuts trained(const spec::Run& run, const plan::Cuts& cuts) {
  const auto program = program::data_parallel(plan::describe(families::step_request(run), {}, cuts));
  TrainedWithCuts out;
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    Session session(session_plan(run, program), alone, random_source(run.model));
    for (int i = 0; i < 3; ++i) out.losses.push_back(session.step().loss);
    for (auto& bucket : session.buckets()) out.parameters.push_back(bucket.shard().clone());
  });
  return out;
}

void expect_bit_equal(const TrainedWithCuts& a, const TrainedWithCuts& b, const std::string& name) {
  EXPECT_EQ(a.losses, b.losses) << name;
  for (std::size_t i = 0; i < a.parameters.size(); ++i)
    EXPECT_TRUE(tensor::bit_equal(a.parameters[i], b.parameters[i])) << name << ", bucket " << i;
}

// A cut itself may change the order in which autograd adds up a stream's gradients: what is kept is cut
// alike.
TEST(Recompute, IsBitEqualToKeepingInEveryPrecisionWithDropout) {
  for (const auto precision :
       {spec::Precision::fp32, spec::Precision::fp64, spec::Precision::bf16, spec::Precision::fp16})
    for (const bool is_gpt2 : {false, true}) {
      auto run = is_gpt2 ? small_gpt2_run(1) : small_run(1);
      run.model.dropout = 0.1;
      run.layout.precision = precision;
      const auto blocks = families::step_request(run).model.blocks;
      const auto name = [&](const spec::Run& r) {
        return cat(spec::word(precision), is_gpt2 ? " gpt2 " : " llama ", recomputed_text(r));
      };
      for (const Mode& mode : {kFull, kAttention, kNarrow}) {
        const auto again = plan::cuts(with(run, mode).layout, blocks);
        auto kept = again;
        for (auto& cut : kept)
          for (auto& stretch : cut) stretch.recomputed = false;
        expect_bit_equal(trained(run, again), trained(run, kept), name(with(run, mode)));
      }
      expect_bit_equal(trained(run, plan::cuts(with(run, kFull).layout, blocks)),
                       trained(run, plan::cuts(run.layout, blocks)), name(run));
    }
}

TEST(Recompute, WithinABudgetTheNumbersAreThoseOfKeeping) {
  auto run = small_run(1);
  run.model = {
      .layers = 4, .hidden = 64, .heads = 4, .kv_heads = 4, .ffn = 256, .vocab = 61, .sequence = 256};
  run.layout.precision = spec::Precision::fp64;
  run.layout.micro_batch = 4;
  const auto held = [](const spec::Run& r) {
    const auto program = plan::compile(r);
    return program::replay_memory(program.classes[0], program.tables).peak_bytes;
  };
  auto tight = run;
  tight.layout.recompute = Recompute::budget;
  tight.layout.memory_limit_mib = (held(run) + held(with(run, kFull))) / 2 >> 20;
  EXPECT_LE(held(tight), tight.layout.memory_limit_mib << 20);
  const auto expected = losses(run, 2), found = losses(tight, 2);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i] / expected[i], 1.0, 1e-13);
}

TEST(Recompute, ABudgetIsVerifiedAsFullRecomputation) {
  auto run = small_run(2);
  run.layout.recompute = Recompute::budget;
  run.layout.memory_limit_mib = 1 << 20;
  const auto verification = verify_on_threads(run);
  EXPECT_TRUE(verification.passed()) << to_text(verification);
  EXPECT_NE(verification.shrunk.find("recompute budget -> full"), std::string::npos) << verification.shrunk;
}

// Kernel FLOPs of one step, all ranks together.
double counted_flops(const spec::Run& run) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(run.layout.ranks()));
  collective::run_ranks(
      static_cast<int>(run.layout.ranks()), [&](const collective::Communicator& communicator) {
        Session session(session_plan(run), communicator, random_source(run.model));
        const tensor::FlopCount count;
        session.step();
        counts[static_cast<std::size_t>(communicator.rank())] = count.products() + count.attention();
      });
  double total = 0;
  for (const auto count : counts) total += static_cast<double>(count);
  return total;
}

// What pieces of the recomputed segments multiply in one forward, all micro-batches together.
double recomputed_flops(const program::Program& program) {
  const auto& tables = program.tables;
  double total = 0;
  for (const auto& segment : tables.segments)
    for (std::uint32_t i = 0; segment.recomputed && i < segment.num_pieces; ++i)
      total += tables.units[segment.unit].pieces[segment.first_piece + i].flops;
  return total * tables.num_micro;
}

TEST(Recompute, RunsOncePerSegmentAndMicroBatchInEveryScheduleCountedAtTheKernels) {
  OneIn takes(3);
  for (const auto schedule : kSchedules)
    for (const std::int64_t pp : {1, 2, 3, 4}) {
      if (!takes()) continue;
      auto run = staged(small_run(1), pp, schedule);
      run.model.layers = 7;
      run.training.global_batch = 2 * (2 * pp + 1);
      const double kept = counted_flops(run);
      for (const Mode& mode : {kFull, kAttention}) {
        const auto again = with(run, mode);
        const auto program = plan::compile(again);
        std::vector<int> times(program.tables.segments.size() *
                               static_cast<std::size_t>(program.tables.num_micro));
        for (const auto& sequence : program.classes)
          for (const auto& op : sequence.ops)
            if (op.what == OpKind::recompute)
              ++times[op.item * static_cast<std::size_t>(program.tables.num_micro) +
                      static_cast<std::size_t>(op.micro)];
        for (std::size_t i = 0; i < times.size(); ++i)
          EXPECT_EQ(
              times[i],
              program.tables.segments[i / static_cast<std::size_t>(program.tables.num_micro)].recomputed);
        EXPECT_EQ(counted_flops(again) - kept, recomputed_flops(program)) << recomputed_text(again);
        EXPECT_GT(recomputed_flops(program), 0);
        const auto flops = program::step_flops(program);
        EXPECT_EQ(flops.hardware - flops.model, recomputed_flops(program));
      }
    }
}

}  // namespace
}  // namespace tessera::train
