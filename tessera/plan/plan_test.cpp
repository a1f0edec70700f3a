#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "tessera/base/testing/golden.hpp"
#include "tessera/base/text.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/describe.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/program/check/check.hpp"
#include "tessera/program/ir/effects.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/memory/memory.hpp"
#include "tessera/program/passes/generate.hpp"

namespace tessera::plan {
namespace {

using program::Bucket;
using program::Dtype;
using program::Tables;

spec::Run ten_million() {
  spec::Run run;
  run.model = {
      .layers = 8, .hidden = 320, .heads = 5, .kv_heads = 5, .ffn = 864, .vocab = 256, .sequence = 256};
  return run;
}

// Two layers, grouped queries, four samples a step on two ranks.
spec::Run small() {
  spec::Run run;
  run.model = {.layers = 2, .hidden = 48, .heads = 6, .kv_heads = 2, .ffn = 100, .vocab = 30, .sequence = 16};
  run.training.global_batch = 4;
  run.layout.dp_replicate = 2;
  return run;
}

// L(2h² + 2hk + 3hf + 2h) + h + Vh, and Vh once more untied.
std::int64_t count_by_formula(const spec::Model& m) {
  const std::int64_t h = m.hidden, k = m.kv_heads * (h / m.heads);
  return m.layers * (2 * h * h + 2 * h * k + 3 * h * m.ffn + 2 * h) + h +
         (m.tied_embeddings ? 1 : 2) * m.vocab * h;
}

TEST(Describe, CountsParametersAsTheFormula) {
  spec::Run llama3_8b;
  llama3_8b.model = {.layers = 32,
                     .hidden = 4096,
                     .heads = 32,
                     .kv_heads = 8,
                     .ffn = 14336,
                     .vocab = 128256,
                     .sequence = 8192};
  EXPECT_EQ(num_parameters(describe(llama3_8b)), 8'030'261'248);
  EXPECT_EQ(num_parameters(describe(ten_million())), 10'081'600);
  for (spec::Run run : {small(), ten_million(), llama3_8b})
    for (const bool tied : {false, true}) {
      run.model.tied_embeddings = tied;
      EXPECT_EQ(num_parameters(describe(run)), count_by_formula(run.model));
    }
}

TEST(Describe, CountsThePublishedParametersOfRelatedFamilies) {
  spec::Run qwen2, qwen3, mistral;
  qwen2.model = {.layers = 24, .hidden = 896, .heads = 14, .kv_heads = 2, .ffn = 4864, .vocab = 151936};
  qwen2.model.qkv_bias = qwen2.model.tied_embeddings = true;
  EXPECT_EQ(num_parameters(describe(qwen2)), 494'032'768);
  qwen3.model = {.layers = 28, .hidden = 1024, .heads = 16, .kv_heads = 8, .head_dim = 128, .ffn = 3072};
  qwen3.model.vocab = 151936;
  qwen3.model.qk_norm = qwen3.model.tied_embeddings = true;
  EXPECT_EQ(num_parameters(describe(qwen3)), 596'049'920);
  mistral.model = {.layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 8, .ffn = 14336, .vocab = 32000};
  mistral.model.sliding_window = 4096;
  EXPECT_EQ(num_parameters(describe(mistral)), 7'241'732'096);
}

// Biases of q, k and v lie side by side; they, and the norms of heads, do not decay.
TEST(Describe, PutsBiasesAndHeadNormsAmongTheVectors) {
  spec::Run run = small();
  run.model.layers = 1;
  run.model.head_dim = 10;
  run.model.qkv_bias = run.model.qk_norm = true;
  const Bucket vectors = describe(run).buckets.back();
  std::vector<std::pair<std::string, std::int64_t>> found;
  for (const auto& parameter : vectors.parameters) found.emplace_back(parameter.name, parameter.elements());
  const std::string block = "model.layers.0.";
  EXPECT_EQ(found, (std::vector<std::pair<std::string, std::int64_t>>{
                       {block + "input_layernorm.weight", 48},
                       {block + "self_attn.q_proj.bias", 60},
                       {block + "self_attn.k_proj.bias", 20},
                       {block + "self_attn.v_proj.bias", 20},
                       {block + "self_attn.q_norm.weight", 10},
                       {block + "self_attn.k_norm.weight", 10},
                       {block + "post_attention_layernorm.weight", 48},
                       {"model.norm.weight", 48}}));
  EXPECT_FALSE(vectors.weight_decay);
  EXPECT_EQ(describe(run).buckets[1].parameters[3].shape, (std::vector<std::int64_t>{48, 60}));
}

TEST(Describe, NamesParametersAsHuggingFaceDoes) {
  const Tables tables = describe(small());
  std::vector<std::string> buckets, block, norms;
  for (const Bucket& bucket : tables.buckets) buckets.push_back(bucket.name);
  EXPECT_EQ(buckets, (std::vector<std::string>{"embedding", "block.0", "block.1", "head", "vectors"}));
  for (const auto& parameter : tables.buckets[2].parameters) block.push_back(parameter.name);
  EXPECT_EQ(block, (std::vector<std::string>{
                       "model.layers.1.self_attn.q_proj.weight", "model.layers.1.self_attn.k_proj.weight",
                       "model.layers.1.self_attn.v_proj.weight", "model.layers.1.self_attn.o_proj.weight",
                       "model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.up_proj.weight",
                       "model.layers.1.mlp.down_proj.weight"}));
  for (const auto& parameter : tables.buckets[4].parameters) norms.push_back(parameter.name);
  EXPECT_EQ(norms,
            (std::vector<std::string>{
                "model.layers.0.input_layernorm.weight", "model.layers.0.post_attention_layernorm.weight",
                "model.layers.1.input_layernorm.weight", "model.layers.1.post_attention_layernorm.weight",
                "model.norm.weight"}));
  EXPECT_EQ(tables.buckets[0].parameters[0].name, "model.embed_tokens.weight");
  EXPECT_EQ(tables.buckets[3].parameters[0].name, "lm_head.weight");
}

TEST(Describe, PutsFusedMatricesSideBySideAndPadsTheBucket) {
  const Bucket block = describe(small()).buckets[1];
  std::vector<std::int64_t> offsets;
  for (const auto& parameter : block.parameters) offsets.push_back(parameter.offset);
  EXPECT_EQ(offsets, (std::vector<std::int64_t>{0, 2304, 3072, 3840, 6144, 10944, 15744}));
  EXPECT_EQ(block.parameters[1].shape, (std::vector<std::int64_t>{16, 48}));
  EXPECT_EQ(block.elements, 20544);                       // 15744 + 4800, a multiple of 64 already
  EXPECT_EQ(describe(small()).buckets[4].elements, 256);  // 5 norms of 48
}

TEST(Describe, InitialisesResidualProjectionsSmallerAndNormsWithOnes) {
  const Tables tables = describe(small());
  for (const Bucket& bucket : tables.buckets) {
    EXPECT_EQ(bucket.weight_decay, bucket.name != "vectors");
    for (const auto& parameter : bucket.parameters) {
      const bool is_residual = parameter.name.find("o_proj") != std::string::npos ||
                               parameter.name.find("down_proj") != std::string::npos;
      if (bucket.name == "vectors") {
        EXPECT_EQ(parameter.init.kind, program::Init::Kind::ones);
      } else {
        EXPECT_DOUBLE_EQ(parameter.init.std, is_residual ? 0.02 / 2.0 : 0.02) << parameter.name;
      }
    }
  }
}

TEST(Describe, TiedHeadReadsTheEmbeddingsBucket) {
  spec::Run run = small();
  run.model.tied_embeddings = true;
  const Tables tables = describe(run);
  EXPECT_EQ(tables.buckets.size(), 4u);
  EXPECT_EQ(tables.segments.front().buckets, std::vector<std::uint32_t>{0});
  EXPECT_EQ(tables.segments.back().buckets, (std::vector<std::uint32_t>{0, 3}));
}

TEST(Describe, TakesDtypesFromThePrecision) {
  spec::Run run = small();
  const auto bucket = [&](spec::Precision precision) {
    run.layout.precision = precision;
    return describe(run).buckets[1];
  };
  const Bucket bf16 = bucket(spec::Precision::bf16), fp64 = bucket(spec::Precision::fp64),
               fp32 = bucket(spec::Precision::fp32);
  EXPECT_EQ(std::tuple(bf16.storage, bf16.compute, bf16.gradient, bf16.full_resident, bf16.state_bytes),
            std::tuple(Dtype::fp32, Dtype::bf16, Dtype::fp32, false, 8));
  EXPECT_EQ(std::tuple(fp64.storage, fp64.compute, fp64.gradient, fp64.full_resident, fp64.state_bytes),
            std::tuple(Dtype::fp64, Dtype::fp64, Dtype::fp64, true, 16));
  EXPECT_TRUE(fp32.full_resident);
}

TEST(Describe, CountsMicroBatchesUpwards) {
  spec::Run run = small();
  const std::pair<std::int64_t, std::int64_t> table[] = {{1, 1}, {2, 1}, {3, 2}, {4, 2}, {9, 5}};
  for (const auto& [batch, expected] : table) {
    run.training.global_batch = batch;
    EXPECT_EQ(describe(run).num_micro, expected) << batch;
  }
}

TEST(Describe, HiddenValuesHoldAMicroBatch) {
  spec::Run run = small();
  run.layout.micro_batch = 3;
  const Tables tables = describe(run);
  EXPECT_EQ(tables.values.size(), 3u);
  for (const auto& value : tables.values) EXPECT_EQ(value.bytes, 3 * 16 * 48 * 4);
}

// The published count of a training step's FLOPs: 12 B s L h² [(1 + g/a + s/h) q/h + 3f/2h + V/2Lh].
TEST(Describe, CountsFlopsAsThePublishedFormula) {
  const spec::Run run = small();
  const spec::Model& m = run.model;
  double described = 0;
  for (const auto& unit : describe(run).units)
    for (const auto& piece : unit.pieces) described += piece.flops + piece.backward_flops;
  const double h = m.hidden, s = m.sequence, layers = m.layers;
  const double training =
      12 * s * layers * h * h *
      (1 + double(m.kv_heads) / m.heads + s / h + m.ffn / h * 1.5 + m.vocab / (2 * layers * h));
  EXPECT_NEAR(described, training, 1e-9 * training);
}

// Forward, per token and layer with fp32: 2 inputs scaled and 2 normalised, q before and after its turn, the
// attended, middle (8h), k, v and k turned (3k), gate, up, silu(gate) and product (4f), two norm statistics
// and a row sum per head.
TEST(Describe, TapeOfABlockIsAsComputedByHand) {
  const Tables tables = describe(small());
  EXPECT_EQ(bytes_of(program::Cell{program::CellKind::tape, 1, 0}, tables),
            16 * 4 * (8 * 48 + 3 * 16 + 4 * 100 + 2 + 6));
}

// Norms of q and k keep a root mean square per head, and nothing else.
TEST(Describe, NormsOfHeadsKeepTheirStatisticsAlone) {
  spec::Run run = small();
  run.model.qk_norm = true;
  EXPECT_EQ(bytes_of(program::Cell{program::CellKind::tape, 1, 0}, describe(run)) -
                bytes_of(program::Cell{program::CellKind::tape, 1, 0}, describe(small())),
            16 * 4 * (6 + 2));
}

// The norm's statistics and scaled input (in 16 bits also the widened one) and dx per token, one dW: no
// logits, whose 600 tokens would hold more than all of it.
TEST(Describe, HeadKeepsItsGradientsAndNoLogits) {
  spec::Run run = small();
  run.model.vocab = 7000;
  run.model.sequence = 600;
  const std::int64_t n = 600, h = 48, v = 7000;
  const std::tuple<spec::Precision, std::int64_t, std::int64_t, std::int64_t> table[] = {
      // precision, bytes computed with, bytes of the loss, scratch: logits and log-softmax of 512 tokens
      {spec::Precision::fp32, 4, 4, 512 * v * (4 + 4)},
      {spec::Precision::fp64, 8, 8, 512 * v * (8 + 8)},
      {spec::Precision::bf16, 2, 4, 512 * v * (4 + 4)}};
  for (const auto& [precision, c, a, scratch] : table) {
    run.layout.precision = precision;
    const Tables tables = describe(run);
    EXPECT_EQ(bytes_of(program::Cell{program::CellKind::tape, 3, 0}, tables),
              n * a + (c < a ? 2 : 1) * n * h * a + n * h * c + v * h * a);
    EXPECT_EQ(bytes_of(program::Cell{program::CellKind::weight_work, 3, 0}, tables), v * h * a);
    EXPECT_EQ(tables.units.back().pieces.back().scratch_bytes, scratch + n * h * c + v * h * a);
  }
}

// In bf16 a chunk's dW is made narrow and widened before it is added: [vocab, hidden], beside the chunk's
// wide and narrow d_logits, dx and dW.
TEST(Describe, AWideHeadNeedsMostScratchForItsWeightGradient) {
  spec::Run run = small();
  run.model.hidden = 4800;
  run.layout.precision = spec::Precision::bf16;
  EXPECT_EQ(describe(run).units.back().pieces.back().scratch_bytes,
            16 * 30 * (4 + 2) + 30 * 4800 * (2 + 4) + 16 * 4800 * 2 + 30 * 4800 * 4);
}

TEST(Describe, HeadMultipliesThreeTimesInTheForwardAndNeverInTheBackward) {
  const Tables tables = describe(small());
  double forward = 0, backward = 0;
  for (const auto& piece : tables.units.back().pieces) {
    forward += piece.flops;
    backward += piece.backward_flops;
  }
  EXPECT_EQ(forward, 3.0 * 2 * 16 * 48 * 30);
  EXPECT_EQ(backward, 0);
  const auto& qkv = tables.units[1].pieces.front();
  EXPECT_EQ(qkv.flops, 2.0 * 16 * 48 * (48 + 2 * 16));
  EXPECT_EQ(qkv.backward_flops, 2 * qkv.flops);
}

TEST(Describe, HoldsATrillionParametersWithoutOverflow) {
  spec::Run run;
  run.model = {.layers = 128,
               .hidden = 25600,
               .heads = 160,
               .kv_heads = 160,
               .ffn = 68266,
               .vocab = 51200,
               .sequence = 2048};
  const Tables tables = describe(run);
  EXPECT_GT(num_parameters(tables), 1'000'000'000'000);
  EXPECT_EQ(num_parameters(tables), count_by_formula(run.model));
}

TEST(Compile, ReadsAsReviewedForOneTwoAndFiveMicroBatches) {
  std::string text;
  for (const std::int64_t num_micro : {1, 2, 5}) {
    spec::Run run = small();
    run.training.global_batch = 2 * num_micro;
    text += cat("# ", num_micro, " micro-batches\n", to_text(compile(run)));
  }
  EXPECT_EQ(golden("tessera/plan/golden/micro_batches.txt", text), text);
}

TEST(Compile, OfBf16ReadsAsReviewed) {
  spec::Run run = small();
  run.training.global_batch = 2;
  run.layout.precision = spec::Precision::bf16;
  const std::string text = to_text(compile(run));
  EXPECT_EQ(golden("tessera/plan/golden/bf16.txt", text), text);
}

TEST(Compile, PassesTheCheckerForEveryVariant) {
  for (const std::int64_t dp : {1, 2, 3})
    for (const bool tied : {false, true})
      for (const bool overlap : {false, true})
        for (const auto precision :
             {spec::Precision::fp32, spec::Precision::fp64, spec::Precision::bf16, spec::Precision::fp16}) {
          spec::Run run = small();
          if (precision == spec::Precision::fp16)
            run.model.family = spec::Family::gpt2, run.model.kv_heads = 6;
          run.layout.dp_replicate = dp;
          run.layout.overlap = overlap;
          run.layout.precision = precision;
          run.model.tied_embeddings = tied;
          run.training.global_batch = 7;
          EXPECT_EQ(to_text(program::check(compile(run))), "");
        }
}

TEST(Compile, ShardsAtEveryStageWithEverySchedule) {
  for (const auto schedule : {"1f1b"_schedule, "interleaved"_schedule, "zb-v"_schedule})
    for (const std::int64_t zero : {0, 1, 2, 3})
      for (const std::int64_t pp : {1, 3})
        for (const bool tied : {false, true})
          for (const std::int64_t replicas : {1, 2}) {
            spec::Run run = small();
            run.model.layers = 5;
            run.model.tied_embeddings = tied;
            run.layout.schedule = schedule;
            run.layout.pp = pp;
            run.layout.dp_shard = 2;
            run.layout.dp_replicate = replicas;
            run.layout.zero = zero;
            run.training.global_batch = 2 * replicas * 7;
            const auto program = compile(run);  // which checks it
            for (const auto& bucket : program.tables.buckets) {
              EXPECT_EQ(bucket.elements % (2 * program::kBucketAlignment), 0);
              EXPECT_EQ(program.tables.size_of(bucket.sharded_over), zero == 0 ? 1 : 2);
              const std::int64_t parts =
                  program.tables.size_of(bucket.reduced_over) * program.tables.size_of(bucket.shared_over);
              const bool on_two_stages =
                  tied && pp > 1 && bucket.name == "embedding" && schedule != "zb-v"_schedule;
              EXPECT_EQ(parts, 2 * replicas * (on_two_stages ? 2 : 1)) << bucket.name;
            }
          }
}

TEST(Compile, MemoryOfTenMillionParametersIsSixteenBytesEachAndTapes) {
  spec::Run run = ten_million();
  run.training.global_batch = 1;
  const program::Program program = compile(run);
  const program::Memory memory = program::replay_memory(program.classes[0], program.tables);
  std::int64_t elements = 0;
  for (const Bucket& bucket : program.tables.buckets) elements += bucket.elements;
  EXPECT_EQ(elements, 10'081'600);  // every bucket is a multiple of 64 here
  EXPECT_EQ(memory.end_bytes, 12 * elements);
  EXPECT_GT(memory.peak_bytes, 16 * elements);
}

TEST(Compile, EqualRanksOfManyAreOneClass) {
  spec::Run run = small();
  run.layout.dp_replicate = 16384;
  run.training.global_batch = 16384;
  const program::Program program = compile(run);
  EXPECT_EQ(program.classes.size(), 1u);
  EXPECT_EQ(program.tables.class_of_rank.size(), 16384u);
  EXPECT_EQ(program.tables.size_of(0), 16384);
}

// Llama 405B, the block of a pipeline's stage: with the gathered inputs of both branches it would be 1.26
// GiB.
TEST(Describe, TapeOfABlockOf405BUnderTensorParallelismHasNoGatheredInput) {
  spec::Run run;
  run.model = {.layers = 126,
               .hidden = 16384,
               .heads = 128,
               .kv_heads = 8,
               .ffn = 53248,
               .vocab = 128256,
               .sequence = 8192};
  run.layout.tp = 8;
  run.layout.pp = 16;
  run.layout.precision = spec::Precision::bf16;
  const auto tape_bytes = [&] {
    return bytes_of(program::Cell{program::CellKind::tape, 1, 0}, describe(run));
  };
  EXPECT_LE(static_cast<double>(tape_bytes()), 0.85 * (1 << 30));
  const std::int64_t regathered = tape_bytes();
  run.layout.tp_regather = false;
  constexpr std::int64_t kGathered = 8192 * 16384 * 2;  // of a branch; its eighth is kept in any case
  EXPECT_EQ(tape_bytes() - regathered, 2 * (kGathered - kGathered / 8));
}

// 671B parameters, 37B of them for a token, as published.
TEST(Describe, CountsDeepSeekV3) {
  spec::Run run;
  run.model = {.family = spec::Family::deepseek,
               .layers = 61,
               .hidden = 7168,
               .heads = 128,
               .kv_heads = 128,
               .head_dim = 192,
               .ffn = 18432,
               .vocab = 129280,
               .sequence = 4096};
  run.model.q_rank = 1536, run.model.kv_rank = 512, run.model.rope_dim = 64, run.model.value_dim = 128;
  run.model.experts = 256, run.model.experts_per_token = 8, run.model.expert_ffn = 2048;
  run.model.shared_experts = 1, run.model.dense_layers = 3;
  run.model.balance = spec::Balance::bias;
  const auto tables = describe(run);
  EXPECT_EQ(num_parameters(tables), 671'026'419'200);
  EXPECT_EQ(num_active_parameters(run.model, tables) / 100'000'000, 366);
}

}  // namespace
}  // namespace tessera::plan
