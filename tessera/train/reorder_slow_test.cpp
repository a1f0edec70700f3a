// Does the executor depend on luck? Every legal order of a program gives the same numbers, bit by bit.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "tessera/base/text.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/program/check/check.hpp"
#include "tessera/program/testing/mutate.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {
namespace {

using tensor::Tensor;

constexpr std::uint64_t kReorderings = 500;

spec::Run small_run(bool tied, spec::Precision precision) {
  spec::Run run;
  run.model = {.layers = 2, .hidden = 16, .heads = 2, .kv_heads = 1, .ffn = 24, .vocab = 31, .sequence = 6};
  run.model.tied_embeddings = tied;
  run.training.global_batch = 7;  // the last micro-batch of rank 1 is short
  run.layout.dp_replicate = 2;
  run.layout.micro_batch = 2;
  run.layout.precision = precision;
  return run;
}

struct Numbers {
  std::vector<double> losses;
  std::vector<Tensor> parameters;
};

Numbers trained(const spec::Run& run, const program::Program& program) {
  Numbers numbers;
  collective::run_ranks(2, [&](const collective::Communicator& communicator) {
    Session session(session_plan(run, program), communicator, random_source(run.model));
    std::vector<double> losses;
    for (int step = 0; step < 2; ++step) losses.push_back(session.step().loss);
    if (communicator.rank() != 0) return;
    numbers.losses = losses;
    for (auto& bucket : session.buckets()) numbers.parameters.push_back(bucket.shard().clone());
  });
  return numbers;
}

bool same(const Numbers& a, const Numbers& b) {
  for (std::size_t i = 0; i < a.parameters.size(); ++i)
    if (!tensor::bit_equal(a.parameters[i], b.parameters[i])) return false;
  return a.losses == b.losses;
}

TEST(Reordering, EveryLegalOrderIsAcceptedAndGivesTheReferencesBits) {
  auto gpt2 = small_run(true, spec::Precision::fp16);
  gpt2.model.family = spec::Family::gpt2;
  gpt2.model.kv_heads = gpt2.model.heads;
  gpt2.model.dropout = 0.1;
  const std::array runs = {small_run(false, spec::Precision::fp64), small_run(true, spec::Precision::fp64),
                           small_run(false, spec::Precision::bf16), gpt2};
  std::vector<program::Program> programs;
  std::vector<Numbers> references;
  for (const auto& run : runs) {
    programs.push_back(plan::compile(run));
    references.push_back(trained(run, programs.back()));
  }
  std::uint64_t changed = 0;
  const char* first = std::getenv("TESSERA_SEED");
  const std::uint64_t from = first ? std::stoull(first) : 0;
  for (std::uint64_t seed = from; seed < from + kReorderings; ++seed) {
    const std::size_t i = seed % runs.size();
    const auto program = program::legal_reordering(programs[i], seed);
    changed += program != programs[i];
    const auto problems = program::check(program);
    ASSERT_TRUE(problems.empty()) << "seed " << seed << "\n" << program::to_text(problems);
    ASSERT_TRUE(same(references[i], trained(runs[i], program))) << "seed " << seed;
  }
  EXPECT_GT(changed, kReorderings * 9 / 10);
  std::printf("%d reorderings, %d of them really different, all bit-equal\n", static_cast<int>(kReorderings),
              static_cast<int>(changed));
}

}  // namespace
}  // namespace tessera::train
