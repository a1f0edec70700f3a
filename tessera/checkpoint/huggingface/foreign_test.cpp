#include "tessera/checkpoint/huggingface/foreign.hpp"

#include <gtest/gtest.h>

namespace tessera::checkpoint {
namespace {

TEST(ForeignPlace, OfGpt2IsFusedAndTransposed) {
  EXPECT_EQ(foreign_place("transformer.h.11.attn.k_proj.weight"),
            (foreign::ForeignPlace{
                .tensor = "transformer.h.11.attn.c_attn.weight", .transposed = true, .part = 1, .parts = 3}));
  EXPECT_EQ(foreign_place("transformer.h.0.attn.v_proj.bias"),
            (foreign::ForeignPlace{.tensor = "transformer.h.0.attn.c_attn.bias", .part = 2, .parts = 3}));
  EXPECT_EQ(foreign_place("transformer.h.0.attn.out_proj.weight"),
            (foreign::ForeignPlace{.tensor = "transformer.h.0.attn.c_proj.weight", .transposed = true}));
  EXPECT_EQ(foreign_place("transformer.h.0.mlp.up_proj.bias"),
            (foreign::ForeignPlace{.tensor = "transformer.h.0.mlp.c_fc.bias"}));
  EXPECT_EQ(foreign_place("transformer.h.0.mlp.down_proj.weight"),
            (foreign::ForeignPlace{.tensor = "transformer.h.0.mlp.c_proj.weight", .transposed = true}));
  EXPECT_EQ(foreign_place("transformer.wpe.weight"),
            (foreign::ForeignPlace{.tensor = "transformer.wpe.weight", .may_be_longer = true}));
}

TEST(ForeignPlace, OfLlamaIsItsOwnName) {
  for (const char* name :
       {"model.layers.3.self_attn.q_proj.weight", "model.layers.3.mlp.up_proj.weight", "lm_head.weight"})
    EXPECT_EQ(foreign_place(name), foreign::ForeignPlace{.tensor = name});
}

TEST(ForeignPlace, KnowsWhatNoParameterIsMadeOf) {
  EXPECT_TRUE(is_derived("h.3.attn.bias"));
  EXPECT_TRUE(is_derived("model.layers.0.self_attn.rotary_emb.inv_freq"));
  EXPECT_FALSE(is_derived("h.3.attn.c_attn.bias"));
  EXPECT_EQ(without_prefix("transformer.h.3.ln_1.weight"), "h.3.ln_1.weight");
}

}  // namespace
}  // namespace tessera::checkpoint
