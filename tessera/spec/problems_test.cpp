#include "tessera/spec/problems.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/spec/load.hpp"

namespace tessera::spec {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StrEq;
using testing::ThrowsMessage;

std::vector<std::string> texts(const std::function<void(spec::Run&)>& change) {
  spec::Run run;
  change(run);
  std::vector<std::string> out;
  for (const auto& problem : problems(run)) {
    EXPECT_EQ(problem.text.rfind(problem.key + " = ", 0), 0u) << problem.text;
    out.push_back(problem.text);
  }
  return out;
}

TEST(Problems, ADefaultRunHasNone) {
  EXPECT_TRUE(problems(spec::Run{}).empty());
  EXPECT_NO_THROW(validate(spec::Run{}));
}

TEST(Problems, SourcesOfDataHaveAsManyWeightsAndNoText) {
  const auto of = [](const Data& data) { return texts([&](spec::Run& run) { run.data = data; }); };
  EXPECT_THAT(of({.sources = "a,b", .weights = "0.7, 0.3"}), IsEmpty());
  EXPECT_THAT(of({.sources = "a,b", .weights = "1"}), ElementsAre(HasSubstr("has 1 number for 2 sources")));
  EXPECT_THAT(of({.path = "c.txt", .sources = "a"}), ElementsAre(HasSubstr("name one of them")));
  EXPECT_THAT(of({.sources = "a", .document_end = "x"}), ElementsAre(HasSubstr("is for bytes")));
  EXPECT_THAT(of({.path = "c.txt", .validation = 0.1}),
              ElementsAre(HasSubstr("name a text in evaluation.path")));
  EXPECT_THAT(texts([](spec::Run& run) { run.data.sources = "a", run.evaluation.every = 5; }),
              ElementsAre(HasSubstr("data.validation = 0 holds no documents out")));
}

TEST(Problems, WhatIsImplementedTodayIsAccepted) {
  EXPECT_TRUE(texts([](spec::Run& run) { run.layout.dp_replicate = 4; }).empty());
  EXPECT_TRUE(texts([](spec::Run& run) { run.layout.precision = Precision::bf16; }).empty());
  EXPECT_TRUE(texts([](spec::Run& run) { run.layout.precision = Precision::fp64; }).empty());
  EXPECT_TRUE(texts([](spec::Run& run) { run.training.optimizer = Optimizer::sgd; }).empty());
  EXPECT_TRUE(texts([](spec::Run& run) { run.layout.precision = Precision::fp16; }).empty());
  EXPECT_TRUE(texts([](spec::Run& run) { run.model.kv_heads = 2; }).empty());
  EXPECT_TRUE(texts([](spec::Run& run) { run.model.family = Family::gpt2; }).empty());
  EXPECT_TRUE(texts([](spec::Run& run) { run.model.dropout = 0.1; }).empty());
}

TEST(Problems, SizesMustDivide) {
  EXPECT_THAT(texts([](spec::Run& run) { run.model.heads = run.model.kv_heads = 3; }),
              ElementsAre("model.hidden = 256 is not divisible by model.heads = 3"));
  EXPECT_THAT(texts([](spec::Run& run) { run.model.kv_heads = 3; }),
              ElementsAre("model.heads = 4 is not divisible by model.kv_heads = 3"));
  EXPECT_THAT(
      texts([](spec::Run& run) { run.model.hidden = 20; }),
      ElementsAre("model.hidden = 20 makes heads of 5 channels; rotary positions need an even number"));
}

TEST(Problems, WhatGpt2HasNotIsRefused) {
  EXPECT_THAT(
      texts([](spec::Run& run) {
        run.model.family = Family::gpt2;
        run.model.kv_heads = 2;
        run.model.rope_theta = 5e5;
      }),
      ElementsAre("model.kv_heads = 2 differs from model.heads; GPT-2 has no grouped queries: write "
                  "model.kv_heads = 4",
                  "model.rope_theta = 5e+05 means nothing to GPT-2, whose positions are learnt: leave it "
                  "out"));
  EXPECT_THAT(texts([](spec::Run& run) {
                run.model.family = Family::gpt2;
                run.model.hidden = 20;
              }),
              ElementsAre())
      << "heads of five channels";
}

TEST(Problems, HeadsOfTheirOwnWidthNeedNotDivideHidden) {
  EXPECT_THAT(texts([](spec::Run& run) {
                run.model.hidden = 30;
                run.model.head_dim = 16;
              }),
              ElementsAre());
  EXPECT_THAT(
      texts([](spec::Run& run) { run.model.head_dim = 15; }),
      ElementsAre("model.head_dim = 15 makes heads of 15 channels; rotary positions need an even number"));
}

TEST(Problems, LayersWithAWindowAreNamedByLetters) {
  EXPECT_THAT(texts([](spec::Run& run) {
                run.model.sliding_window = 100;
                run.model.window_layers = "wwf";
              }),
              ElementsAre());
  EXPECT_THAT(
      texts([](spec::Run& run) { run.model.window_layers = "wwf"; }),
      ElementsAre(
          "model.window_layers = \"wwf\" says who has a window, and model.sliding_window = 0 is none"));
  EXPECT_THAT(
      texts([](spec::Run& run) {
        run.model.sliding_window = 100;
        run.model.window_layers = "wx";
      }),
      ElementsAre(
          "model.window_layers = \"wx\" has other letters than w (the window) and f (all positions)"));
}

TEST(Problems, ScaledFrequenciesHaveALowAndAHighBound) {
  EXPECT_THAT(texts([](spec::Run& run) {
                run.model.rope_scaling_factor = 8;
                run.model.rope_low_frequency_factor = 4;
              }),
              ElementsAre("model.rope_low_frequency_factor = 4.0 is not below "
                          "model.rope_high_frequency_factor = 4"));
}

TEST(Problems, WhatGpt2LacksIsNotAsked) {
  const auto found = texts([](spec::Run& run) {
    run.model.family = Family::gpt2;
    run.model.qkv_bias = run.model.qk_norm = true;
    run.model.head_dim = 2 * run.model.hidden;
    run.model.sliding_window = run.model.sequence;
    run.model.rope_scaling_factor = 2;
  });
  EXPECT_EQ(found.size(), 5u) << join(found, "\n");
}

TEST(Problems, TheLearningRateCurveMustFitTheSteps) {
  EXPECT_THAT(texts([](spec::Run& run) { run.training.min_learning_rate = 0.01; }),
              ElementsAre("training.min_learning_rate = 0.01 is above training.learning_rate = 0.001"));
  EXPECT_THAT(texts([](spec::Run& run) { run.training.steps = 5; }), ElementsAre())
      << "a short trial of a long run";
  EXPECT_THAT(texts([](spec::Run& run) {
                run.training.decay = Decay::wsd;
                run.training.decay_steps = 91;
              }),
              ElementsAre("training.decay_steps = 91 leaves no room: training.steps = 100 with "
                          "training.warmup_steps = 10 before"));
}

TEST(Problems, TheLossScaleIsAPowerOfTwo) {
  for (const double power : {1.0, 2.0, 1024.0, 0x1p32})
    EXPECT_THAT(texts([&](spec::Run& run) { run.training.loss_scale_start = power; }), ElementsAre());
  EXPECT_THAT(texts([](spec::Run& run) { run.training.loss_scale_start = 1000; }),
              ElementsAre("training.loss_scale_start = 1000.0 is not a power of two; the nearest is 1024"));
  EXPECT_EQ(texts([](spec::Run& run) { run.training.loss_scale_start = 1.5; }).size(), 1u);
}

TEST(Problems, ValuesOutOfRangeAreFoundInARunMadeInCode) {
  EXPECT_THAT(texts([](spec::Run& run) {
                run.model.heads = 0;
                run.training.global_batch = 0;
              }),
              ElementsAre("model.heads = 0 is out of range; wants an integer from 1 to 1048576",
                          "training.global_batch = 0 is out of range; wants an integer from 1 to 16777216"));
}

TEST(Problems, RanksAreCountedWithoutOverflow) {
  EXPECT_THAT(texts([](spec::Run& run) {
                run.layout.dp_replicate = 8;
                run.cluster.devices = 6;
              }),
              ElementsAre("cluster.devices = 6 is fewer than the 8 ranks of the layout (pp * dp_replicate * "
                          "dp_shard * cp * tp)"));
  EXPECT_THAT(
      texts([](spec::Run& run) {
        run.layout.pp = run.layout.dp_replicate = run.layout.dp_shard = run.layout.cp = run.layout.tp = 1
                                                                                                        << 20;
      })[0],
      StrEq("layout.pp = 1048576 with dp_replicate, dp_shard, cp and tp makes more than 1048576 ranks"));
}

TEST(Problems, SizesWhoseProductsCannotBeCountedAreRefused) {
  EXPECT_THAT(texts([](spec::Run& run) {
                run.layout.micro_batch = 1 << 24;
                run.model.sequence = 1 << 24;
              }),
              ElementsAre("layout.micro_batch = 16777216 is too large: micro_batch * model.sequence * "
                          "(model.hidden + model.ffn + model.vocab) * model.layers is above 2^56"));
  EXPECT_THAT(
      texts([](spec::Run& run) {
        run.model.hidden = 1 << 20;
        run.model.heads = run.model.kv_heads = 1 << 10;
        run.model.ffn = 1 << 24;
        run.model.layers = 1 << 16;
        run.model.sequence = 1;
      }),
      ElementsAre("model.hidden = 1048576 with layers, ffn and vocab makes more than 2^56 parameters"));
  EXPECT_THAT(
      texts([](spec::Run& run) { run.training.steps = std::numeric_limits<std::int64_t>::max(); }),
      ElementsAre("training.steps = 9223372036854775807 with global_batch and model.sequence makes more than "
                  "2^62 tokens"));
  // Ten trillion parameters, a million tokens in a micro-batch, a million steps of a hundred million tokens.
  EXPECT_THAT(texts([](spec::Run& run) {
                run.model.hidden = run.model.ffn = 1 << 17;
                run.model.heads = run.model.kv_heads = 1 << 10;
                run.model.vocab = 1 << 18;
                run.model.layers = 128;
                run.model.sequence = 1 << 20;
                run.training.global_batch = 100;
                run.training.steps = 1'000'000;
              }),
              ElementsAre());
}

TEST(Problems, RanksOfExpertsNeedExperts) {
  EXPECT_THAT(texts([](spec::Run& run) { run.layout.ep = 2; }),
              ElementsAre("layout.ep = 2 has no experts to share: it is for model.experts above 0"));
}

TEST(Problems, BlocksAreRefusedWithTheNearestSizeThatWorks) {
  const auto refused = [](auto change) {
    const auto found = texts([&](spec::Run& run) {
      run.model.heads = run.model.kv_heads = 4;
      run.layout.tp = 4;
      run.layout.micro_batch = 2;
      run.layout.tp_kind = TensorKind::d2;
      change(run);
    });
    return join(found, "\n");
  };
  EXPECT_EQ(refused([](spec::Run&) {}), "");
  EXPECT_EQ(refused([](spec::Run& run) { run.layout.tp = 6; }),
            "layout.tp = 6 is not q x q ranks, as layout.tp_kind wants; the nearest possible: 4, 16");
  EXPECT_EQ(refused([](spec::Run& run) { run.layout.micro_batch = 3; }),
            "layout.micro_batch = 3 must be a multiple of 2: with layout.tp_kind = 2d 2 ranks share its "
            "samples; the nearest possible: 2, 4");
  EXPECT_EQ(refused([](spec::Run& run) { run.model.kv_heads = 1; }),
            "layout.tp = 4 needs model.kv_heads = 1 to be a multiple of 2; the nearest possible: 1");
  EXPECT_EQ(refused([](spec::Run& run) { run.layout.sequence_parallel = false; }),
            "layout.sequence_parallel = false means nothing with layout.tp_kind = 2d, which cuts the stream "
            "in any case: leave it out");
  EXPECT_EQ(refused([](spec::Run& run) {
              run.layout.tp_kind = TensorKind::d1, run.layout.tp_gather = true, run.layout.tp_depth = 4;
            }),
            "layout.tp_depth = 4 is for layout.tp_kind = 2.5d\n"
            "layout.tp_gather = true is for layout.tp_kind = 2d or 2.5d");
  EXPECT_EQ(refused([](spec::Run& run) { run.layout.tp_overlap = true; }),
            "layout.tp_overlap = true does not work with layout.tp_kind = 2d: leave it out");
}

TEST(Problems, DelayedWeightsStayInMemoryAndNeedEnoughMicroBatches) {
  const auto delayed = [](auto change) {
    return texts([&](spec::Run& run) {
      run.layout.schedule = "pipedream-2bw"_schedule;
      run.layout.pp = 2;
      change(run);
    });
  };
  EXPECT_THAT(delayed([](spec::Run& run) { run.layout.zero = 1; }), ElementsAre());
  EXPECT_THAT(
      delayed([](spec::Run& run) { run.layout.zero = 2; }),
      ElementsAre(
          "layout.zero = 2 frees what is computed with, but pipedream-2bw keeps it from step to step: "
          "write layout.zero = 1"));
  EXPECT_THAT(
      delayed([](spec::Run& run) { run.training.global_batch = 1; }),
      ElementsAre(
          "training.global_batch = 1 makes 1 micro-batches; pipedream-2bw needs at least layout.pp = 2, "
          "or a weight would be two versions behind"));
}

TEST(Problems, OffloadNamesWhatItKnowsAndCanMove) {
  EXPECT_THAT(texts([](spec::Run& run) { run.layout.offload = "optimizer, parameters"; }), ElementsAre());
  EXPECT_THAT(
      texts([](spec::Run& run) { run.layout.offload = "optimizer,tapes"; }),
      ElementsAre(
          "layout.offload = \"optimizer,tapes\" names 'tapes'; it may name optimizer, parameters, values"));
  EXPECT_THAT(
      texts([](spec::Run& run) { run.layout.offload = "values"; }),
      ElementsAre("layout.offload = \"values\" names values, which leave only where they are not kept for a "
                  "backward: write layout.recompute = full or selective"));
  EXPECT_THAT(
      texts([](spec::Run& run) { run.layout.offload_folder = "x"; }),
      ElementsAre("layout.offload_folder = \"x\" has nothing to hold: name in layout.offload what leaves "
                  "memory, e.g. optimizer"));
  EXPECT_THAT(texts([](spec::Run& run) { run.layout.recompute = Recompute::budget; }),
              ElementsAre("layout.recompute = budget needs to know what it must fit in: write "
                          "layout.memory_limit_mib"));
}

TEST(Problems, StagesMustFitTheScheduleAndTheModel) {
  EXPECT_THAT(texts([](spec::Run& run) { run.layout.pp = 6, run.model.layers = 4; }), ElementsAre());
  EXPECT_THAT(
      texts([](spec::Run& run) { run.layout.pp = 7, run.model.layers = 4; }),
      ElementsAre(
          "layout.pp = 7 with 1 virtual stage(s) a rank makes more stages than the 6 units of the model "
          "(embedding, 4 blocks, head)"));
  EXPECT_THAT(
      texts([](spec::Run& run) { run.layout.pp = 4, run.layout.schedule = "auto"_schedule; }),
      ElementsAre(
          "layout.pp = 4 with 2 virtual stage(s) a rank (as auto has by itself; see "
          "layout.virtual_stages) makes more stages than the 6 units of the model (embedding, 4 blocks, "
          "head)"));
  EXPECT_THAT(texts([](spec::Run& run) { run.layout.pp = 4, run.layout.schedule_file = "x.csv"; }),
              ElementsAre());
  EXPECT_THAT(
      texts([](spec::Run& run) { run.layout.virtual_stages = 2, run.layout.schedule_file = "x.csv"; }),
      ElementsAre("layout.virtual_stages = 2 is decided by layout.schedule_file: leave it out"));
  EXPECT_THAT(
      texts([](spec::Run& run) { run.layout.virtual_stages = 2; }),
      ElementsAre("layout.virtual_stages = 2 must be 1 (or 0) with layout.schedule = 1f1b; interleaved, "
                  "bfs, auto take more"));
  EXPECT_THAT(texts([](spec::Run& run) {
                run.layout.schedule = "zb-v"_schedule;
                run.layout.virtual_stages = 3;
              }),
              ElementsAre("layout.virtual_stages = 3 must be 2 (or 0) with layout.schedule = zb-v"));
}

TEST(Problems, NcclNeedsABuildThatHasIt) {
  spec::Run run;
  run.cluster.transport = Transport::nccl;
  EXPECT_THAT([&] { validate(run); }, ThrowsMessage<UserError>(StrEq(
                                          "cluster.transport = nccl needs a build with CUDA, which this is "
                                          "not; possible here: sockets, threads")));
  EXPECT_NO_THROW(validate(run, {.transports = {Transport::nccl}}));
  EXPECT_NO_THROW(validate(run, any_build())) << "what is only planned";
}

TEST(Problems, ZeroThatWouldShardNothingIsRefusedWithTheLayoutThatWasMeant) {
  EXPECT_THAT(
      texts([](spec::Run& run) { run.layout = {.dp_replicate = 4, .zero = 3}; }),
      ElementsAre(
          "layout.zero = 3 would shard nothing: ZeRO shards over layout.dp_shard, and all 4 data-parallel "
          "ranks are whole replicas (layout.dp_replicate). Write layout.dp_shard = 4 instead of "
          "dp_replicate, or layout.dp = 4, which chooses by layout.zero"));
  EXPECT_THAT(texts([](spec::Run& run) { run.layout = {.dp_shard = 4, .zero = 3}; }), IsEmpty());
  EXPECT_THAT(texts([](spec::Run& run) { run.layout = {.dp_replicate = 2, .dp_shard = 2, .zero = 1}; }),
              IsEmpty());
  EXPECT_THAT(texts([](spec::Run& run) { run.layout = {.dp_replicate = 2, .cp = 2, .zero = 1}; }), IsEmpty())
      << "the ranks of cp hold parts of the state too";
  EXPECT_THAT(texts([](spec::Run& run) { run.layout.zero = 3; }), IsEmpty());
}

TEST(Problems, AStepOfTooManyOpsIsRefusedBeforeItIsPlanned) {
  const auto with = [](const std::vector<std::string>& overrides) {
    return texts([&](spec::Run& run) { run = parse_unchecked("", "run.toml", overrides); });
  };
  EXPECT_THAT(
      with({"training.global_batch=16777216"}),
      ElementsAre(
          "training.global_batch = 16777216 makes 16777216 micro-batches of 1 on a data-parallel rank, a "
          "step of about 201.3M ops; at most 16.8M can be planned: write layout.micro_batch = 16 or "
          "more, or take more data-parallel ranks"));
  EXPECT_THAT(with({"training.global_batch=16777216", "layout.micro_batch=16"}), IsEmpty());
  EXPECT_THAT(with({"training.global_batch=16777216", "layout.dp_replicate=16"}), IsEmpty());
  EXPECT_THAT(
      with({"training.global_batch=65536", "model.layers=32", "layout.tp=2", "layout.tp_overlap=true"}),
      ElementsAre(HasSubstr("a step of about 37.9M ops")));
  EXPECT_THAT(
      with({"training.global_batch=16777216", "layout.dp_replicate=1048576", "layout.dp_shard=1048576",
            "layout.micro_batch=16777216", "layout.schedule=pipedream-2bw"}),
      testing::Each(testing::Not(HasSubstr("ops"))));
}

TEST(Problems, ValidateListsAllOfThem) {
  spec::Run run;
  run.layout.ep = 2;
  run.model.kv_heads = 3;
  EXPECT_THAT([&] { validate(run); },
              ThrowsMessage<UserError>(
                  StrEq("model.heads = 4 is not divisible by model.kv_heads = 3\n"
                        "layout.ep = 2 has no experts to share: it is for model.experts above 0")));
}

TEST(Problems, WhatTpAndCpDoNotDivideIsRefusedWithTheNearestThatDoes) {
  const auto with = [](std::int64_t cp, std::int64_t cp_heads, std::int64_t tp) {
    spec::Run run;
    run.model = {.hidden = 96, .heads = 12, .kv_heads = 4, .ffn = 96, .vocab = 96, .sequence = 96};
    run.layout.cp = cp;
    run.layout.cp_heads = cp_heads;
    run.layout.tp = tp;
    return run;
  };
  const auto texts = [](const spec::Run& run) {
    std::vector<std::string> out;
    for (const auto& problem : problems(run)) out.push_back(problem.text);
    return join(out, "; ");
  };
  for (const std::int64_t tp : {1, 2, 4, 12}) EXPECT_EQ(texts(with(1, 1, tp)), "") << tp;
  EXPECT_EQ(texts(with(1, 1, 5)),
            "layout.tp = 5 does not divide model.heads = 12; the nearest possible: 4, 12");
  EXPECT_EQ(texts(with(1, 1, 6)),
            "layout.tp = 6 neither divides model.kv_heads = 4 nor is a multiple of it; the nearest possible: "
            "4, 12");
  spec::Run run = with(1, 1, 4);
  run.model.ffn = 90;
  EXPECT_EQ(texts(run), "layout.tp = 4 does not divide model.ffn = 90; the nearest possible: 2");
  run = with(2, 1, 4);
  run.model.sequence = 72;
  EXPECT_EQ(texts(run), "");
  run.model.sequence = 100;
  EXPECT_EQ(texts(run),
            "layout.tp = 4 does not divide model.sequence / layout.cp = 50; the nearest possible: 2");
  run.layout.sequence_parallel = false;
  EXPECT_EQ(texts(run), "");
  EXPECT_EQ(texts(with(3, 2, 1)),
            "layout.cp = 3 is not divisible by layout.cp_heads = 2; the nearest possible: 2, 4");
  EXPECT_EQ(texts(with(5, 1, 1)),
            "layout.cp = 5 does not divide model.sequence = 96; the nearest possible: 4, 6");
  EXPECT_EQ(texts(with(32, 1, 1)),
            "layout.cp = 32 makes a ring of 32, which cuts model.sequence = 96 into 64 chunks, but they "
            "would not be "
            "equal; the nearest possible: 24, 48");
  EXPECT_EQ(texts(with(4, 4, 4)),
            "layout.cp_heads = 4 does not divide the 3 query heads of a rank (model.heads / layout.tp); the "
            "nearest possible: 1");
}

TEST(Problems, UnequalMicroBatchesMustMakeTheBatch) {
  spec::Run run;
  run.layout.dp_replicate = 2;
  run.training.global_batch = 8;
  const auto first = [&](const char* by_rank) {
    run.layout.micro_batches_by_rank = by_rank;
    const auto found = problems(run);
    return found.empty() ? std::string() : found.front().text;
  };
  EXPECT_EQ(first("5,3"), "");
  EXPECT_NE(first("5,2").find("makes 7 micro-batches"), std::string::npos);
  EXPECT_NE(first("8").find("a number for each of the 2 data-parallel ranks"), std::string::npos);
  EXPECT_NE(first("a,b").find("a number for each"), std::string::npos);
  run = {};
  run.layout.automatic = true;
  EXPECT_NE(problems(run).front().text.find("layout.automatic"), std::string::npos);
}

}  // namespace
}  // namespace tessera::spec
