// Do ranks call what the program says, and move what the theory says?
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/text.hpp"
#include "tessera/program/calls.hpp"
#include "tessera/program/memory.hpp"
#include "tessera/spec/words.hpp"
#include "tessera/train/small_runs.hpp"

namespace tessera::train {
namespace {

using collective::CallKind;

// Of one axis set on one rank.
struct Called {
  CallKind kind;
  std::int64_t bytes;
  bool operator==(const Called&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Called& call) {
  return out << collective::word(call.kind) << " " << call.bytes;
}

CallKind kind_of(program::CollectiveKind kind) {
  switch (kind) {
    case program::CollectiveKind::all_reduce:
      return CallKind::all_reduce;
    case program::CollectiveKind::all_gather:
      return CallKind::all_gather;
    case program::CollectiveKind::reduce_scatter:
      return CallKind::reduce_scatter;
    case program::CollectiveKind::all_to_all:
      return CallKind::all_to_all;
    case program::CollectiveKind::broadcast:
      return CallKind::broadcast;
    case program::CollectiveKind::shift:
      break;
  }
  return CallKind::send;
}

// What each op of the step made, as the report has it, in words.
std::string to_text(const std::vector<engine::OpTime>& times) {
  std::vector<std::string> words;
  for (const auto& time : times)
    for (const auto& calls : time.calls)
      words.push_back(cat(time.op, " ", calls.axes, " ", collective::word(calls.kind), " ",
                          calls.volume.calls, " ", calls.volume.bytes));
  return join(words, "\n");
}

std::string expected_text(const program::Sequence& sequence, const program::Tables& tables) {
  std::vector<std::string> words;
  for (std::size_t op = 0; op < sequence.ops.size(); ++op) {
    std::vector<std::pair<std::pair<std::int16_t, CallKind>, collective::Volume>> volumes;
    for (const auto& call : program::calls_of(sequence.ops[op], tables)) {
      const std::pair key(call.axis, kind_of(call.kind));
      auto found = std::ranges::find(volumes, key, [](const auto& each) { return each.first; });
      if (found == volumes.end()) found = volumes.insert(found, {key, {}});
      found->second = found->second + collective::Volume{1, call.bytes};
    }
    std::ranges::sort(volumes, {}, [](const auto& each) { return each.first; });
    for (const auto& [key, volume] : volumes)
      words.push_back(
          cat(op, " ", key.first, " ", collective::word(key.second), " ", volume.calls, " ", volume.bytes));
  }
  return join(words, "\n");
}

// On every rank the calls along each axis set are those of the program's ops, in its order, and each op's own calls are
// counted as its own. Returns what rank 0 moved.
BytesMoved expect_as_the_program(const spec::Run& run, const std::string& what) {
  BytesMoved out;
  collective::run_ranks(
      static_cast<int>(run.layout.ranks()), [&](const collective::Communicator& communicator) {
        Session session(run, communicator, random_source(run.model));
        session.step();
        const auto& tables = session.program().tables;
        for (const std::int16_t set : tables.groups) session.group(set).tally().reset(true);
        const auto report = session.step();
        const auto rank = static_cast<std::size_t>(communicator.rank());
        const auto& sequence = session.program().classes[tables.class_of_rank[rank]];
        for (const std::int16_t set : tables.groups) {
          std::vector<Called> found, expected;
          for (const auto& call : session.group(set).tally().list()) found.push_back({call.kind, call.bytes});
          for (const auto& op : sequence.ops)
            for (const auto& call : program::calls_of(op, tables))
              if (call.axis == set) expected.push_back({kind_of(call.kind), call.bytes});
          EXPECT_EQ(found, expected) << what << ", rank " << rank << ", along "
                                     << tables.axis_sets[static_cast<std::size_t>(set)].name;
        }
        EXPECT_EQ(to_text(report.times), expected_text(sequence, tables)) << what << ", rank " << rank;
        if (rank == 0) out = report.moved;
      });
  return out;
}

std::int64_t parameter_bytes(const spec::Run& run) {
  std::int64_t out = 0;
  collective::run_ranks(static_cast<int>(run.layout.ranks()),
                        [&](const collective::Communicator& communicator) {
                          Session session(run, communicator, random_source(run.model));
                          std::int64_t bytes = 0;
                          for (const auto& bucket : session.buckets())
                            bytes += bucket.table().elements * bytes_of(bucket.table().storage);
                          if (communicator.rank() == 0) out = bytes;
                        });
  return out;
}

const MovedAlong* find(const BytesMoved& moved, const std::string& axes, const std::string& kind) {
  for (const MovedAlong& part : moved.along)
    if (part.axes == axes && part.kind == kind) return &part;
  return nullptr;
}
std::int64_t sent(const BytesMoved& moved, const std::string& axes, const std::string& kind) {
  const MovedAlong* part = find(moved, axes, kind);
  return part ? part->sent_bytes : 0;
}

spec::Run zero_run(std::int64_t zero, std::int64_t shard, std::int64_t replicate) {
  spec::Run run = small_run(replicate);
  run.layout.dp_shard = shard;
  run.layout.zero = zero;
  run.layout.micro_batch = 1;
  return run;
}

// With P bytes of parameters on d ranks a step sends 2 (d-1)/d P; from stage 2 on a reduction per micro-batch, from
// stage 3 on two gathers per micro-batch instead of one per step.
TEST(Counters, OfZeroAreThoseOfTheProgramAndOfTheTheory) {
  constexpr std::int64_t kMicroBatches = 4;
  for (const std::int64_t shard : {2, 4})
    for (const std::int64_t zero : {0, 1, 2, 3}) {
      spec::Run run = zero_run(zero, shard, 1);
      run.training.global_batch = kMicroBatches * shard;
      run.layout.prefetch = 0;
      const std::string what = cat("zero ", zero, " on ", shard);
      const BytesMoved moved = expect_as_the_program(run, what);
      const std::int64_t once = parameter_bytes(run) * (shard - 1) / shard;
      constexpr std::int64_t kSums = 4;  // tokens, loss, norm, finite
      const std::int64_t sums = 2 * kSums * 8 * (shard - 1) / shard;
      if (zero == 0) {
        EXPECT_EQ(sent(moved, "dp", "all_reduce"), 2 * once + sums) << what;
        continue;
      }
      EXPECT_EQ(sent(moved, "dp", "all_reduce"), sums) << what;
      EXPECT_EQ(sent(moved, "shard.gradients", "reduce_scatter"), (zero == 1 ? 1 : kMicroBatches) * once)
          << what;
      const std::int64_t gathered = sent(moved, "shard", "all_gather");
      if (zero < 3) {
        EXPECT_EQ(gathered, once) << what;
      } else {  // a bucket that a backward needs right after its forward is still there
        EXPECT_LE(gathered, 2 * kMicroBatches * once) << what;
        EXPECT_GT(gathered, kMicroBatches * once) << what;
      }
    }
}

TEST(Counters, OfReplicatedShardsAndBf16AreThoseOfTheProgram) {
  for (const std::int64_t zero : {1, 3}) {
    spec::Run run = zero_run(zero, 2, 2);
    expect_as_the_program(run, cat("zero ", zero, ", replicas"));
    run.layout.precision = spec::Precision::bf16;
    expect_as_the_program(run, cat("zero ", zero, ", replicas, bf16"));
  }
}

// Each boundary is crossed by a value and a gradient per micro-batch: tokens x hidden elements.
TEST(Counters, OfPipelinesAreThoseOfTheProgramAndOfTheTheory) {
  for (const auto schedule :
       {spec::Schedule::gpipe, spec::Schedule::f1b1, spec::Schedule::interleaved, spec::Schedule::zb_v})
    for (const bool tied : {false, true}) {
      spec::Run run = zero_run(1, 2, 1);
      run.model.layers = 4;
      run.model.tied_embeddings = tied;
      run.layout.pp = 2;
      run.layout.schedule = schedule;
      const std::string what = cat(spec::word(schedule), tied ? ", tied" : "");
      const BytesMoved moved = expect_as_the_program(run, what);
      const std::int64_t value = run.layout.micro_batch * run.model.sequence * run.model.hidden * 4;
      const std::int64_t crossings = schedule == spec::Schedule::interleaved ? 2 : 1;  // from rank 0, forward
      EXPECT_EQ(sent(moved, "pp", "send"), crossings * run.num_micro_batches() * value) << what;
    }
}

}  // namespace
}  // namespace tessera::train
