// Do ranks that share matrices and sequences compute what one device does?
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/testing/one_in.hpp"
#include "tessera/base/text.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/train/testing/equal.hpp"
#include "tessera/train/testing/small_runs.hpp"

namespace tessera::train {
namespace {

using program::OpKind;

// Sizes that tp = 3 divides too, and no power of two where there is a choice.
spec::Run shared_run(std::int64_t tp, std::int64_t cp = 1, std::int64_t cp_heads = 1) {
  spec::Run run = small_run(1);
  run.model = {.layers = 2, .hidden = 36, .heads = 6, .kv_heads = 3, .ffn = 60, .vocab = 66, .sequence = 12};
  run.model.tied_embeddings = true;
  run.layout.tp = tp;
  run.layout.cp = cp;
  run.layout.cp_heads = cp_heads;
  run.training.global_batch = 5;  // the last micro-batch is short
  return run;
}

spec::Run as_gpt2(spec::Run run) {
  run.model.family = spec::Family::gpt2;
  run.model.kv_heads = run.model.heads;
  run.model.dropout = 0.1;
  return run;
}

// Of about a dozen tokens: token 10 of 12 ends one.
void as_documents(spec::Run& run) {
  run.model.vocab = 12;
  run.data.document_end = "\n";
}

TEST(TensorParallel, EverySizeThatDividesIsEqualToOneDevice) {
  OneIn takes(3);
  for (const std::int64_t tp : {1, 2, 3, 6})
    for (const bool cuts : {true, false})
      for (const bool is_gpt2 : {false, true}) {
        if (!takes()) continue;
        spec::Run run = shared_run(tp);
        if (tp == 2) run.model.kv_heads = 2;
        run.layout.sequence_parallel = cuts;
        expect_equal_to_one_device(is_gpt2 ? as_gpt2(run) : run,
                                   cat("tp ", tp, cuts ? ", cut stream" : "", is_gpt2 ? ", gpt2" : ""));
      }
}

TEST(TensorParallel, RanksThatShareAHeadOfKeysAddUpItsGradient) {
  for (const std::int64_t zero : {0, 1, 3}) {
    spec::Run run = shared_run(4);
    run.model = {
        .layers = 2, .hidden = 32, .heads = 8, .kv_heads = 2, .ffn = 48, .vocab = 64, .sequence = 12};
    run.model.qkv_bias = run.model.qk_norm = true;
    run.layout.dp_shard = 2;
    run.layout.zero = zero;
    expect_equal_to_one_device(run, cat("zero ", zero));
  }
}

TEST(ContextParallel, RingsExchangesAndBothAreEqualToOneDevice) {
  OneIn takes(3);
  for (const auto& [cp, heads] : {std::pair{2, 1}, {3, 1}, {2, 2}, {4, 2}, {6, 6}})
    for (const bool has_documents : {false, true}) {
      if (!takes()) continue;
      spec::Run run = shared_run(1, cp, heads);
      if (has_documents) as_documents(run);
      const std::string what = cat("cp ", cp, " heads ", heads, has_documents ? ", documents" : "");
      expect_equal_to_one_device(run, what);
      expect_equal_to_one_device(as_gpt2(run), what + ", gpt2");
    }
}

TEST(ContextParallel, EndsOfDocumentsAreNoTargetsAndNobodySeesBeyondThem) {
  spec::Run run = shared_run(1);
  as_documents(run);
  spec::Run one_document = run;
  one_document.data.document_end.clear();
  // The same targets, masked by hand where a document ends; `num_ends` counts them.
  std::int64_t num_ends = 0;
  const Source masked = [&](auto samples, auto tokens, auto targets, auto documents) {
    random_source(run.model)(samples, tokens, targets, documents);
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i] == '\n') targets[i] = -1, ++num_ends;
  };
  const auto report = [](const spec::Run& of, const Source& source) {
    engine::StepReport out;
    collective::run_ranks(
        1, [&](const auto& communicator) { out = Session(session_plan(of), communicator, source).step(); });
    return out;
  };
  const auto by_hand = report(one_document, masked), documents = report(run, random_source(run.model));
  EXPECT_GT(num_ends, 0);
  EXPECT_EQ(documents.tokens, static_cast<double>(5 * run.model.sequence - num_ends));
  EXPECT_EQ(documents.tokens, by_hand.tokens);
  EXPECT_NE(documents.loss, by_hand.loss);  // attention ends with them too
}

TEST(ContextParallel, ComposesWithTensorParallelismPipelinesAndZero) {
  for (const std::int64_t zero : {0, 1, 2, 3}) {
    spec::Run run = shared_run(2, 2);
    run.model.kv_heads = 2;
    run.layout.dp_shard = 2;
    run.layout.zero = zero;
    run.layout.recompute = spec::Recompute::selective;
    expect_equal_to_one_device(run, cat("zero ", zero));
    run.layout.dp_shard = 1;
    run.layout.pp = 2;
    run.layout.schedule = "zb-h1"_schedule;
    expect_equal_to_one_device(as_gpt2(run), cat("pp, zero ", zero));
  }
}

TEST(Opened, BlocksComputeTheSame) {
  for (const bool cuts : {true, false})
    for (const auto recompute : {spec::Recompute::none, spec::Recompute::full, spec::Recompute::selective}) {
      spec::Run run = shared_run(3);
      run.layout.tp_overlap = true;
      run.layout.sequence_parallel = cuts;
      run.layout.recompute = recompute;
      run.layout.recompute_pieces = "attention,norm+up";
      expect_equal_to_one_device(run, "opened");
      expect_equal_to_one_device(as_gpt2(run), "opened, gpt2");
    }
}

TEST(Opened, BlocksComposeWithPipelinesContextAndZero) {
  spec::Run run = shared_run(2, 2);
  run.model.kv_heads = 2;
  run.layout.tp_overlap = true;
  run.layout.pp = 2;
  run.layout.zero = 1;
  expect_equal_to_one_device(run, "pp2 cp2 tp2");
  run.layout.pp = 1;
  run.layout.dp_shard = 2;
  run.layout.zero = 3;
  expect_equal_to_one_device(as_gpt2(run), "dp2 cp2 tp2, zero 3");
}

// The numbers are the same bit for bit: neither cuts nor order change what is added to what.
TEST(Opened, LossesAreThoseOfClosedBlocks) {
  spec::Run closed = shared_run(3), opened = closed;
  opened.layout.tp_overlap = true;
  EXPECT_EQ(losses(opened, 3), losses(closed, 3));
}

TEST(Opened, ExchangesOfOneMicroBatchAreFollowedByTheWorkOfAnother) {
  spec::Run run = shared_run(3);
  run.layout.tp_overlap = true;
  const auto program = plan::compile(run);
  const auto& ops = program.classes.front().ops;
  int followed = 0, exchanges = 0;
  for (std::size_t i = 0; i + 1 < ops.size(); ++i) {
    if (ops[i].what != OpKind::exchange) continue;
    ++exchanges;
    const auto next = std::find_if(ops.begin() + static_cast<std::ptrdiff_t>(i), ops.end(),
                                   [](const auto& op) { return program::is_compute(op.what); });
    if (next != ops.end() && next->micro != ops[i].micro) ++followed;
  }
  // Four a block, forward and back, for three micro-batches; the first forward and the last backward are
  // alone.
  EXPECT_EQ(exchanges, 4 * 2 * 2 * 3);
  EXPECT_GE(followed, exchanges / 2);
}

}  // namespace
}  // namespace tessera::train
