// Traffic in fewer bytes: equal to the same rounding written out on one device, and a damaged sum is noticed.
// About 6 s.
#include "tessera/verify/lossy.hpp"

#include <gtest/gtest.h>

#include "tessera/base/error.hpp"
#include "tessera/train/testing/small_runs.hpp"
#include "tessera/verify/verify.hpp"

namespace tessera::train {
namespace {

using spec::Compression;
using spec::Layout;

spec::Run lossy(Layout layout, Compression gradients, Compression weights = Compression::none) {
  spec::Run run = small_run(1);
  layout.micro_batch = 2;
  layout.precision = spec::Precision::fp64;
  layout.compress_gradients = gradients;
  layout.compress_weights = weights;
  run.layout = layout;
  run.training.global_batch = 11;  // the last micro-batch is short
  run.training.warmup_steps = 0;
  return run;
}

void expect_equal(const spec::Run& run) {
  References references;
  const auto found = verify_as_it_is(run, references);
  EXPECT_TRUE(found.passed()) << to_text(found);
}

TEST(Lossy, GradientsAndWeightsAreRoundedAsOneDeviceRoundsThem) {
  for (const Compression kind : {Compression::bf16, Compression::int8})
    for (const bool is_tied : {false, true})
      for (const Layout& layout :
           {Layout{.dp_replicate = 1}, Layout{.dp_replicate = 3}, Layout{.pp = 2, .dp_replicate = 2},
            Layout{.dp_shard = 2, .zero = 1}, Layout{.pp = 2, .dp_shard = 3, .zero = 1},
            Layout{.dp_replicate = 2, .dp_shard = 2, .zero = 1}, Layout{.dp_shard = 3, .zero = 2},
            Layout{.dp_replicate = 2, .dp_shard = 2, .zero = 3, .recompute = spec::Recompute::full},
            Layout{.dp_shard = 2, .zero = 1, .overlap_steps = true}}) {
        if (is_tied && layout.pp > 1) continue;  // each stage rounds its part of a shared table
        spec::Run run = lossy(layout, kind, layout.zero > 0 ? kind : Compression::none);
        run.model.tied_embeddings = is_tied;
        expect_equal(run);
      }
}

TEST(Lossy, EachByItselfAndOtherBlocks) {
  expect_equal(lossy({.dp_shard = 2, .zero = 3}, Compression::none, Compression::int8));
  expect_equal(lossy({.dp_shard = 2, .zero = 1}, Compression::int8, Compression::bf16));
  spec::Run run = lossy({.dp_shard = 3, .zero = 1}, Compression::int8);
  run.layout.compress_block = 17;
  expect_equal(run);
  run.training.optimizer = spec::Optimizer::sgd;
  run.training.momentum = 0.9;
  expect_equal(run);
}

TEST(Lossy, ThinSumsAreThoseOfOneDevice) {
  for (const bool is_tied : {false, true})
    for (const Layout& layout :
         {Layout{.dp_replicate = 1}, Layout{.dp_replicate = 3}, Layout{.pp = 2, .dp_replicate = 2},
          Layout{.dp_shard = 2, .zero = 1}, Layout{.dp_replicate = 2, .cp = 2},
          Layout{.dp_replicate = 2, .compress_rank = 1}, Layout{.dp_replicate = 2, .overlap_steps = true}}) {
      spec::Run run = lossy(layout, Compression::powersgd);
      run.model.tied_embeddings = is_tied;
      run.training.optimizer = spec::Optimizer::sgd;  // AdamW makes much of what is nearly zero
      expect_equal(run);
    }
}

// What one device without rounding comes to is something else: the comparison can fail.
TEST(Lossy, IsNotExact) {
  for (const Compression kind : {Compression::bf16, Compression::int8, Compression::powersgd}) {
    const spec::Run run = lossy({.dp_replicate = 2}, kind);
    spec::Run exact = run;
    exact.layout.compress_gradients = Compression::none;
    const auto losses_after = [](const spec::Run& r) { return losses(r, 4).back(); };
    EXPECT_NE(losses_after(run), losses_after(exact));
  }
}

TEST(Lossy, SaysWhatCantBeWrittenOut) {
  EXPECT_THROW(expect_equal(lossy({.dp_replicate = 2, .tp = 2}, Compression::int8)), UserError);
  EXPECT_THROW(expect_equal(lossy({.dp_replicate = 2, .cp = 2}, Compression::int8)), UserError);
  spec::Run tied = lossy({.pp = 2, .dp_replicate = 2}, Compression::int8);
  tied.model.tied_embeddings = true;
  EXPECT_THROW(expect_equal(tied), UserError);
}

}  // namespace
}  // namespace tessera::train
