// Tensor parallelism in two, two and a half and three dimensions, with every other way to split. About 15 s.
#include <gtest/gtest.h>

#include "tessera/train/testing/small_runs.hpp"
#include "tessera/verify/verify.hpp"

namespace tessera::train {
namespace {

using spec::Layout;
using enum spec::TensorKind;

spec::Run in_blocks(spec::Run run, const Layout& layout) {
  run.model.vocab = 60;
  run.model.kv_heads = run.model.family == spec::Family::gpt2 ? 4 : 2;
  run.training.global_batch = 7;  // the last micro-batches are short, or empty
  run.layout = layout;
  run.layout.micro_batch = layout.tp_samples();
  run.layout.precision = spec::Precision::fp64;
  return run;
}

std::vector<Layout> square_layouts() {
  using enum spec::Recompute;
  return {
      Layout{.tp = 1, .tp_kind = d2},
      Layout{.tp = 4, .tp_kind = d2},
      Layout{.tp = 4, .tp_kind = d2, .tp_gather = true},
      Layout{.tp = 4, .tp_kind = d25, .tp_depth = 4},
      Layout{.dp_shard = 2, .tp = 4, .tp_kind = d2, .zero = 3},
      Layout{.cp = 2, .tp = 4, .tp_kind = d2, .zero = 1, .recompute = selective},
      Layout{.pp = 2, .tp = 4, .tp_kind = d2, .schedule = "zb-h1"_schedule},
      Layout{.tp = 8, .tp_kind = d25, .recompute = full, .offload = "values,optimizer"},
      Layout{.tp = 8, .tp_kind = d25, .tp_gather = true},
  };
}

std::vector<Layout> cube_layouts() {
  using enum spec::Recompute;
  return {
      Layout{.tp = 1, .tp_kind = d3},
      Layout{.tp = 8, .tp_kind = d3},
      Layout{.tp = 8, .tp_kind = d3, .recompute = selective},
      Layout{.tp = 8, .tp_kind = d3, .offload = "parameters"},
  };
}

void expect_equal(const spec::Run& base, const std::vector<Layout>& layouts) {
  References references;
  for (const Layout& layout : layouts) {
    const auto found = verify_as_it_is(in_blocks(base, layout), references);
    EXPECT_TRUE(found.passed()) << to_text(found);
  }
}

TEST(Blocks, SquaresOfLlamaEqualOneDevice) { expect_equal(small_run(1), square_layouts()); }
TEST(Blocks, CubesOfLlamaEqualOneDevice) { expect_equal(small_run(1), cube_layouts()); }

TEST(Blocks, OfGpt2EqualOneDeviceWithDropoutAndTiedTables) {
  spec::Run run = small_gpt2_run(1);
  run.model.dropout = 0.2;
  run.model.tied_embeddings = true;
  expect_equal(run, square_layouts());
  expect_equal(run, cube_layouts());
}

TEST(Blocks, OfRelatedModelsEqualOneDevice) {
  for (const spec::Run& run : related_runs(1))
    expect_equal(run, {Layout{.tp = 4, .tp_kind = d2}, Layout{.tp = 8, .tp_kind = d3}});
  spec::Run olmo2 = small_run(1);
  olmo2.model.family = spec::Family::olmo2;
  expect_equal(olmo2, {Layout{.tp = 4, .tp_kind = d2}, Layout{.tp = 8, .tp_kind = d3}});
}

TEST(Blocks, OfDocumentsWithDropoutEqualOneDevice) {
  spec::Run run = small_run(1);
  run.data.document_end = "\n";
  run.model.tied_embeddings = true;
  run.model.dropout = 0.1;
  expect_equal(run, {Layout{.tp = 4, .tp_kind = d2}, Layout{.pp = 2, .tp = 4, .tp_kind = d2},
                     Layout{.tp = 8, .tp_kind = d3}});
}

}  // namespace
}  // namespace tessera::train
