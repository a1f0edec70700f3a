#include <gtest/gtest.h>

#include "tessera/plan/describe.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/program/ir/effects.hpp"

namespace tessera::plan {
namespace {

using program::Bucket;
using program::Tables;

spec::Run gpt2_small() {  // the smallest published one
  spec::Run run;
  run.model = {.family = spec::Family::gpt2,
               .layers = 12,
               .hidden = 768,
               .heads = 12,
               .kv_heads = 12,
               .ffn = 3072,
               .vocab = 50257,
               .sequence = 1024,
               .tied_embeddings = true};
  return run;
}

TEST(DescribeGpt2, CountsThePublishedParameters) {
  EXPECT_EQ(num_parameters(describe(gpt2_small())), 124'439'808);
  spec::Run medium = gpt2_small();
  medium.model.layers = 24;
  medium.model.hidden = 1024;
  medium.model.heads = medium.model.kv_heads = 16;
  medium.model.ffn = 4096;
  EXPECT_EQ(num_parameters(describe(medium)), 354'823'168);
}

TEST(DescribeGpt2, PutsVectorsApartFromMatricesAndFusedBiasesSideBySide) {
  spec::Run run = gpt2_small();
  run.model.layers = 1;
  run.model.tied_embeddings = false;
  const Tables tables = describe(run);
  std::vector<std::string> buckets, matrices, vectors;
  for (const Bucket& bucket : tables.buckets) buckets.push_back(bucket.name);
  EXPECT_EQ(buckets, (std::vector<std::string>{"embedding", "block.0", "head", "vectors"}));
  for (const auto& parameter : tables.buckets[1].parameters) matrices.push_back(parameter.name);
  EXPECT_EQ(matrices, (std::vector<std::string>{
                          "transformer.h.0.attn.q_proj.weight", "transformer.h.0.attn.k_proj.weight",
                          "transformer.h.0.attn.v_proj.weight", "transformer.h.0.attn.out_proj.weight",
                          "transformer.h.0.mlp.up_proj.weight", "transformer.h.0.mlp.down_proj.weight"}));
  for (const auto& parameter : tables.buckets[3].parameters) vectors.push_back(parameter.name);
  EXPECT_EQ(vectors, (std::vector<std::string>{
                         "transformer.h.0.ln_1.weight", "transformer.h.0.ln_1.bias",
                         "transformer.h.0.attn.q_proj.bias", "transformer.h.0.attn.k_proj.bias",
                         "transformer.h.0.attn.v_proj.bias", "transformer.h.0.attn.out_proj.bias",
                         "transformer.h.0.ln_2.weight", "transformer.h.0.ln_2.bias",
                         "transformer.h.0.mlp.up_proj.bias", "transformer.h.0.mlp.down_proj.bias",
                         "transformer.ln_f.weight", "transformer.ln_f.bias"}));
  for (const Bucket& bucket : tables.buckets) EXPECT_EQ(bucket.weight_decay, bucket.name != "vectors");
}

// The published count of a training step: 72 B s L h² (1 + s/6h + V/12Lh), for f = 4h.
TEST(DescribeGpt2, CountsFlopsAsThePublishedFormula) {
  const spec::Run run = gpt2_small();
  const spec::Model& m = run.model;
  double described = 0;
  for (const auto& unit : describe(run).units)
    for (const auto& piece : unit.pieces) described += piece.flops + piece.backward_flops;
  const double h = m.hidden, s = m.sequence, layers = m.layers;
  const double training = 72 * s * layers * h * h * (1 + s / (6 * h) + m.vocab / (12 * layers * h));
  EXPECT_NEAR(described, training, 1e-9 * training);
}

// Forward, per token and layer with fp32: 2 normalised inputs, the fused q, k, v, the attended and middle
// (7h), GELU's input and output (2f), four norm statistics and a row sum per head. Dropout keeps nothing.
TEST(DescribeGpt2, TapeOfABlockIsAsComputedByHand) {
  spec::Run run = gpt2_small();
  const std::int64_t expected = 1024 * 4 * (7 * 768 + 2 * 3072 + 4 + 12);
  EXPECT_EQ(bytes_of(program::Cell{program::CellKind::tape, 1, 0}, describe(run)), expected);
  run.model.dropout = 0.1;
  const Tables dropped = describe(run);
  EXPECT_EQ(bytes_of(program::Cell{program::CellKind::tape, 1, 0}, dropped), expected);
  run.model.dropout = 0;
  EXPECT_GT(dropped.units[1].pieces[2].bytes_written, describe(run).units[1].pieces[2].bytes_written);
}

}  // namespace
}  // namespace tessera::plan
