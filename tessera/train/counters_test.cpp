// Do ranks call what the program says, and move what the theory says?
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tessera/base/testing/one_in.hpp"
#include "tessera/base/text.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/planner/variants/spread.hpp"
#include "tessera/program/ir/calls.hpp"
#include "tessera/program/memory/memory.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/train/testing/small_runs.hpp"

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
      const std::pair key(call.over, kind_of(call.kind));
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

// On every rank the calls along each axis set are those of the program's ops, in its order, and each op's own
// calls are counted as its own. Returns what rank 0 moved.
BytesMoved expect_as_the_program(const spec::Run& run, const std::string& what) {
  BytesMoved out;
  collective::run_ranks(
      static_cast<int>(run.layout.ranks()), [&](const collective::Communicator& communicator) {
        Session session(session_plan(run), communicator, random_source(run.model));
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
              if (call.over == set) expected.push_back({kind_of(call.kind), call.bytes});
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
                          Session session(session_plan(run), communicator, random_source(run.model));
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

// Enough heads for four ranks of tp, and positions for four of cp.
spec::Run wide_run() {
  spec::Run run = small_run(1);
  run.model = {.layers = 2, .hidden = 32, .heads = 8, .kv_heads = 4, .ffn = 48, .vocab = 64, .sequence = 16};
  return run;
}

// With P bytes of parameters on d ranks a step sends 2 (d-1)/d P; from stage 2 on a reduction per
// micro-batch, from stage 3 on two gathers per micro-batch instead of one per step.
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

// Matrices in fewer bytes, vectors as they are.
TEST(Counters, OfCompressedTrafficAreThoseOfTheProgramAndOfTheTheory) {
  using enum spec::Compression;
  const auto sent_with = [](spec::Compression kind, std::int64_t zero) {
    spec::Run run = zero_run(zero, zero > 0 ? 2 : 1, zero > 0 ? 1 : 2);
    run.model.hidden = 256, run.model.ffn = 512;
    run.layout.compress_gradients = kind;
    if (zero > 0) run.layout.compress_weights = kind;
    return static_cast<double>(
        expect_as_the_program(run, cat("compressed as ", static_cast<int>(kind), ", zero ", zero)).sent());
  };
  for (const std::int64_t zero : {0, 1}) {
    const double exact = sent_with(none, zero);
    EXPECT_NEAR(sent_with(bf16, zero) / exact, 0.5, 0.005);
    EXPECT_NEAR(sent_with(int8, zero) / exact, 0.2656, 0.01);
  }
  EXPECT_LT(sent_with(powersgd, 0) / sent_with(none, 0), 0.05);
  spec::Run run = zero_run(3, 2, 2);
  run.layout.compress_gradients = int8;
  run.layout.compress_weights = bf16;
  expect_as_the_program(run, "compressed, zero 3, replicas");
}

// Each boundary is crossed by a value and a gradient per micro-batch: tokens x hidden elements.
TEST(Counters, OfPipelinesAreThoseOfTheProgramAndOfTheTheory) {
  for (const auto schedule : {"gpipe"_schedule, "1f1b"_schedule, "interleaved"_schedule, "zb-v"_schedule})
    for (const bool tied : {false, true}) {
      spec::Run run = zero_run(1, 2, 1);
      run.model.layers = 4;
      run.model.tied_embeddings = tied;
      run.layout.pp = 2;
      run.layout.schedule = schedule;
      const std::string what = cat(spec::word(schedule), tied ? ", tied" : "");
      const BytesMoved moved = expect_as_the_program(run, what);
      const std::int64_t value = run.layout.micro_batch * run.model.sequence * run.model.hidden * 4;
      const std::int64_t crossings = schedule == "interleaved"_schedule ? 2 : 1;  // from rank 0, forward
      EXPECT_EQ(sent(moved, "pp", "send"), crossings * run.num_micro_batches() * value) << what;
    }
}

// Bytes of one micro-batch of the stream, all channels of a rank's tokens.
std::int64_t stream_bytes(const spec::Run& run) {
  return run.layout.micro_batch * run.model.sequence / run.layout.cp * run.model.hidden * 4;
}

// Per layer two all-reduces of the stream forward and two back; the embedding one forward, the head one back.
// Cut along its tokens a gather and a reduce-scatter stand for each of them: the same bytes. What a branch
// begins with is gathered once more in the backward, if it is not kept.
TEST(Counters, OfTensorParallelismAreThoseOfTheProgramAndOfTheTheory) {
  for (const std::int64_t tp : {2, 4})
    for (const auto& [cut, again] : {std::pair{false, true}, {true, false}, {true, true}}) {
      spec::Run run = wide_run();
      run.layout.tp = tp;
      run.layout.sequence_parallel = cut;
      run.layout.tp_regather = again;
      const std::string what = cat("tp ", tp, cut ? ", cut stream" : "", cut && again ? ", regathered" : "");
      const BytesMoved moved = expect_as_the_program(run, what);
      const std::int64_t times = (4 * run.model.layers + 2) * run.num_micro_batches();
      const std::int64_t round = times * stream_bytes(run) * (tp - 1) / tp;
      const std::int64_t more = 2 * run.model.layers * run.num_micro_batches();  // calls
      const std::int64_t sums = 2 * 2 * 8 * (tp - 1) / tp;                       // norm, finite
      // What ranks tell each other of the logits of each token: the largest, the sum, the target's.
      const std::int64_t loss =
          run.num_micro_batches() * 3 * run.layout.micro_batch * run.model.sequence * 4 * (tp - 1);
      EXPECT_EQ(sent(moved, "tp", "all_reduce"), (cut ? 0 : 2 * round) + sums) << what;
      EXPECT_EQ(sent(moved, "tp", "reduce_scatter"), cut ? round : 0) << what;
      EXPECT_EQ(sent(moved, "tp", "all_gather"),
                (cut ? round : 0) + (cut && again ? more * stream_bytes(run) * (tp - 1) / tp : 0) + loss)
          << what;
    }
}

// c - 1 shifts of keys and values forward; back the same, and the same of their gradients.
TEST(Counters, OfRingAttentionAreThoseOfTheProgramAndOfTheTheory) {
  for (const std::int64_t cp : {2, 4}) {
    spec::Run run = wide_run();
    run.layout.cp = cp;
    const BytesMoved moved = expect_as_the_program(run, cat("ring of ", cp));
    const std::int64_t keys_and_values =
        2 * run.layout.micro_batch * run.model.sequence / cp * run.model.key_size() * 4;
    EXPECT_EQ(sent(moved, "cp_ring", "send"),
              3 * (cp - 1) * keys_and_values * run.model.layers * run.num_micro_batches())
        << cp;
  }
}

// Queries, keys and values go there, outputs come back; in the backward once more: (c-1)/c of each is for
// others.
TEST(Counters, OfExchangedHeadsAreThoseOfTheProgramAndOfTheTheory) {
  spec::Run run = wide_run();
  run.layout.cp = run.layout.cp_heads = 2;
  const BytesMoved moved = expect_as_the_program(run, "exchanged heads");
  const std::int64_t tokens = run.layout.micro_batch * run.model.sequence / 2;
  const std::int64_t channels = 2 * run.model.query_size() + 2 * run.model.key_size();
  EXPECT_EQ(sent(moved, "cp_heads", "all_to_all"),
            2 * tokens * channels * 4 / 2 * run.model.layers * run.num_micro_batches());
}

TEST(Counters, OfValuesInBlocksAreThoseOfTheProgram) {
  using enum spec::TensorKind;
  for (const auto family : {spec::Family::llama, spec::Family::gpt2, spec::Family::olmo2})
    for (const spec::Layout& layout :
         {spec::Layout{.tp = 4, .tp_kind = d2}, spec::Layout{.tp = 4, .tp_kind = d2, .tp_gather = true},
          spec::Layout{.tp = 8, .tp_kind = d25, .zero = 1}, spec::Layout{.tp = 8, .tp_kind = d3},
          spec::Layout{.pp = 2, .tp = 4, .tp_kind = d2, .recompute = spec::Recompute::full}}) {
      spec::Run run = wide_run();
      run.model.family = family;
      if (family == spec::Family::gpt2) run.model.kv_heads = run.model.heads;
      run.model.tied_embeddings = family == spec::Family::gpt2;
      run.layout = layout;
      run.layout.micro_batch = 4;
      expect_as_the_program(run,
                            cat(spec::word(family), ", ", spec::word(layout.tp_kind), " of ", layout.tp));
    }
}

std::int64_t num_calls(const BytesMoved& moved, const std::string& axes, const std::string& kind) {
  const MovedAlong* part = find(moved, axes, kind);
  return part ? part->calls : 0;
}

// By block and micro-batch, of the last sum of a recomputed block, the last product of values in blocks, a
// product whose operand the backward gathers again, and the way back of exchanged heads.
TEST(Counters, OfRecomputationsOmitWhatOnlyResultsNeed) {
  using enum spec::Recompute;
  constexpr const char* kNarrow = "norm+qkv,out,norm+up";
  const auto moved = [](const spec::Layout& layout) {
    spec::Run run = wide_run();
    run.layout = layout;
    run.layout.micro_batch = 4;
    return std::pair(expect_as_the_program(run, planner::layout_text(run)),
                     run.model.layers * run.num_micro_batches());
  };
  const auto more = [&](spec::Layout layout, const char* axes, const char* kind) {
    const auto [again, blocks] = moved(layout);
    layout.recompute = none;
    const std::int64_t calls = num_calls(again, axes, kind) - num_calls(moved(layout).first, axes, kind);
    EXPECT_EQ(calls % blocks, 0);
    return calls / blocks;
  };
  EXPECT_EQ(more({.tp = 2, .recompute = full}, "tp", "reduce_scatter"), 1);
  EXPECT_EQ(more({.tp = 2, .recompute = full}, "tp", "all_gather"), 2);
  EXPECT_EQ(more({.tp = 2, .sequence_parallel = false, .recompute = full}, "tp", "all_reduce"), 1);
  for (const char* kind : {"reduce_scatter", "all_gather"})
    EXPECT_EQ(more({.tp = 2, .recompute = selective, .recompute_pieces = kNarrow}, "tp", kind), 0);
  const spec::Layout kept{.tp = 2, .tp_regather = false, .recompute = selective, .recompute_pieces = kNarrow};
  EXPECT_EQ(more(kept, "tp", "all_gather"), 2);
  EXPECT_EQ(more({.cp = 2, .cp_heads = 2, .recompute = selective}, "cp_heads", "all_to_all"), 1);
  EXPECT_EQ(more({.cp = 2, .cp_heads = 2, .recompute = full}, "cp_heads", "all_to_all"), 2);
  using enum spec::TensorKind;
  for (const char* axes : {"tp_row", "tp_col"}) {
    EXPECT_EQ(more({.tp = 4, .tp_kind = d2, .recompute = full}, axes, "send"), 3);
    EXPECT_EQ(
        more({.tp = 4, .tp_kind = d2, .recompute = selective, .recompute_pieces = kNarrow}, axes, "send"), 0);
  }
  EXPECT_EQ(more({.tp = 8, .tp_kind = d3, .recompute = full}, "tp_depth", "all_gather"), 3);
}

// A lookup's backward does not read its table, and that of the head only scales what the forward made.
TEST(Counters, OfGathersForABackwardAreOfMatricesThatItMultiplies) {
  spec::Run run = zero_run(3, 2, 1);
  run.layout.prefetch = 0;
  run.layout.micro_batch = 2;
  const auto program = plan::compile(run);
  std::map<std::string, int> gathers;
  for (const auto& op : program.classes[0].ops)
    if (op.what == program::OpKind::gather) ++gathers[program.tables.buckets[op.item].name];
  EXPECT_EQ(gathers.at("embedding"), run.num_micro_batches());
  EXPECT_EQ(gathers.at("block.0"), 2 * run.num_micro_batches());
}

TEST(Counters, OfLayoutsOfManyAxesAreThoseOfTheProgram) {
  OneIn takes(5);
  for (const auto family : {spec::Family::llama, spec::Family::gpt2})
    for (const auto recompute : {spec::Recompute::none, spec::Recompute::full, spec::Recompute::selective}) {
      if (!takes()) continue;
      spec::Run run = wide_run();
      run.model.family = family;
      if (family == spec::Family::gpt2) run.model.kv_heads = run.model.heads;
      run.model.tied_embeddings = true;
      run.layout.recompute = recompute;
      run.layout.pp = run.layout.dp_shard = run.layout.tp = 2;
      run.layout.schedule = "zb-h1"_schedule;
      run.layout.zero = 1;
      const std::string what = cat(spec::word(family), ", recompute ", spec::word(recompute));
      expect_as_the_program(run, cat(what, ", pp x dp x tp"));
      run.layout.pp = run.layout.dp_shard = 1;
      run.layout.zero = 3;
      run.layout.cp = 4;
      run.layout.cp_heads = 2;
      expect_as_the_program(run, cat(what, ", ring x heads x tp"));
      for (const bool cuts : {true, false}) {
        run.layout.tp_overlap = true;
        run.layout.sequence_parallel = cuts;
        run.layout.cp = run.layout.cp_heads = 2;
        expect_as_the_program(run, cat(what, ", opened"));
      }
    }
}

}  // namespace
}  // namespace tessera::train
