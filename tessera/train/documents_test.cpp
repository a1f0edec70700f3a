// Several documents in one sample are trained on as each of them alone would be. Takes about 2 s.
#include <gtest/gtest.h>

#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/data/byte_corpus.hpp"
#include "tessera/train/session.hpp"
#include "tessera/train/testing/small_runs.hpp"

namespace tessera::train {
namespace {

constexpr std::size_t kSequence = 24;
constexpr std::size_t kLengths[] = {11, 1, 7, 5};  // of documents that fill a sample

// Document d at `begin` of a row; the other rows and places are as they were.
void write_document(std::size_t d, std::size_t begin, std::span<std::int64_t> tokens,
                    std::span<std::int64_t> targets) {
  const auto token = [&](std::size_t i) { return static_cast<std::int64_t>((7 * d + 3 * i * i + i) % 61); };
  for (std::size_t i = 0; i < kLengths[d]; ++i) {
    tokens[begin + i] = token(i);
    if (i + 1 < kLengths[d]) targets[begin + i] = token(i + 1);
  }
}

void packed(std::span<const std::uint64_t>, std::span<std::int64_t> tokens, std::span<std::int64_t> targets,
            std::span<std::int64_t> documents) {
  std::ranges::fill(targets, data::kIgnoredTarget);
  for (std::size_t d = 0, begin = 0; d < std::size(kLengths); begin += kLengths[d++]) {
    write_document(d, begin, tokens, targets);
    std::ranges::fill(documents.subspan(begin, kLengths[d]), static_cast<std::int64_t>(d));
  }
}

// Sample d is document d, and room that counts for nothing.
void one_by_one(std::span<const std::uint64_t> samples, std::span<std::int64_t> tokens,
                std::span<std::int64_t> targets, std::span<std::int64_t> documents) {
  std::ranges::fill(targets, data::kIgnoredTarget);
  for (std::size_t row = 0; row < samples.size(); ++row) {
    const std::size_t d = samples[row] % std::size(kLengths), begin = row * kSequence;
    write_document(d, begin, tokens, targets);
    std::ranges::fill(documents.subspan(begin + kLengths[d], kSequence - kLengths[d]), 1);
  }
}

engine::StepReport first_step(const spec::Run& run, const Source& source) {
  engine::StepReport out;
  collective::run_ranks(static_cast<int>(run.layout.ranks()), [&](const collective::Communicator& me) {
    const auto report = Session(run, me, source).step();
    if (me.rank() == 0) out = report;
  });
  return out;
}

class PackedDocuments : public testing::TestWithParam<spec::Family> {};

TEST_P(PackedDocuments, GiveTheLossAndTheGradientsOfEachAlone) {
  spec::Run run = GetParam() == spec::Family::gpt2 ? small_gpt2_run(1) : small_run(1);
  run.model.family = GetParam();
  run.model.sequence = kSequence;
  run.model.vocab = 64;
  run.data.sources = "these";
  run.layout.precision = spec::Precision::fp64;
  run.layout.micro_batch = 1;
  spec::Run alone = run;
  run.training.global_batch = 1;
  alone.training.global_batch = std::ssize(kLengths);
  const auto expected = first_step(alone, one_by_one);
  EXPECT_EQ(expected.tokens, kSequence - std::size(kLengths));
  spec::Run tp = run, cp = run, heads = run, pp = run;
  tp.layout.tp = 2, cp.layout.cp = 2, heads.layout.cp = 2, heads.layout.cp_heads = 2, pp.layout.pp = 2;
  for (const spec::Run& layout : {run, tp, cp, heads, pp}) {
    const auto found = first_step(layout, packed);
    EXPECT_EQ(found.tokens, expected.tokens);
    EXPECT_NEAR(found.loss, expected.loss, 1e-10 * expected.loss);
    EXPECT_NEAR(found.gradient_norm, expected.gradient_norm, 1e-10 * expected.gradient_norm);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, PackedDocuments,
                         testing::Values(spec::Family::llama, spec::Family::gpt2, spec::Family::olmo2));

}  // namespace
}  // namespace tessera::train
