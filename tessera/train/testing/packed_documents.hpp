// Several documents in one sample, and each of them alone. For tests.
#pragma once

#include <algorithm>

#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/data/byte_corpus.hpp"
#include "tessera/train/session.hpp"
#include "tessera/train/testing/small_runs.hpp"

namespace tessera::train {

inline constexpr std::size_t kPackedSequence = 24;
inline constexpr std::size_t kPackedLengths[] = {11, 1, 7, 5};  // of documents that fill a sample

// Document d at `begin` of a row; the other rows and places are as they were.
inline void write_document(std::size_t d, std::size_t begin, std::span<std::int64_t> tokens,
                           std::span<std::int64_t> targets) {
  const auto token = [&](std::size_t i) { return static_cast<std::int64_t>((7 * d + 3 * i * i + i) % 61); };
  for (std::size_t i = 0; i < kPackedLengths[d]; ++i) {
    tokens[begin + i] = token(i);
    if (i + 1 < kPackedLengths[d]) targets[begin + i] = token(i + 1);
  }
}

// Every sample is all of the documents.
inline void packed(std::span<const std::uint64_t> samples, std::span<std::int64_t> tokens,
                   std::span<std::int64_t> targets, std::span<std::int64_t> documents) {
  std::ranges::fill(targets, data::kIgnoredTarget);
  for (std::size_t row = 0; row < samples.size(); ++row)
    for (std::size_t d = 0, begin = row * kPackedSequence; d < std::size(kPackedLengths);
         begin += kPackedLengths[d++]) {
      write_document(d, begin, tokens, targets);
      std::ranges::fill(documents.subspan(begin, kPackedLengths[d]), static_cast<std::int64_t>(d));
    }
}

// Sample d is document d, and room that counts for nothing.
inline void one_by_one(std::span<const std::uint64_t> samples, std::span<std::int64_t> tokens,
                       std::span<std::int64_t> targets, std::span<std::int64_t> documents) {
  std::ranges::fill(targets, data::kIgnoredTarget);
  for (std::size_t row = 0; row < samples.size(); ++row) {
    const std::size_t d = samples[row] % std::size(kPackedLengths), begin = row * kPackedSequence;
    write_document(d, begin, tokens, targets);
    std::ranges::fill(documents.subspan(begin + kPackedLengths[d], kPackedSequence - kPackedLengths[d]), 1);
  }
}

inline engine::StepReport first_step(const spec::Run& run, const Source& source) {
  engine::StepReport out;
  collective::run_ranks(static_cast<int>(run.layout.ranks()), [&](const collective::Communicator& me) {
    const auto report = Session(session_plan(run), me, source).step();
    if (me.rank() == 0) out = report;
  });
  return out;
}

// A run on samples that hold all of the documents, in fp64, and the same on the documents one by one.
inline spec::Run packed_run(spec::Family family) {
  spec::Run run = family == spec::Family::gpt2 ? small_gpt2_run(1) : small_run(1);
  run.model.family = family;
  run.model.sequence = kPackedSequence;
  run.model.vocab = 64;
  run.data.sources = "these";
  run.layout.precision = spec::Precision::fp64;
  run.layout.micro_batch = 1;
  run.training.global_batch = 1;
  return run;
}
inline spec::Run unpacked(spec::Run run) {
  run.layout = {.micro_batch = 1, .precision = run.layout.precision};
  run.training.global_batch = std::ssize(kPackedLengths);
  return run;
}

}  // namespace tessera::train
