// Blocks with experts that are cut where rows travel, in every kind of layout. About 10 s.
#include <gtest/gtest.h>

#include "tessera/train/testing/small_runs.hpp"
#include "tessera/verify/verify.hpp"

namespace tessera::train {
namespace {

std::vector<spec::Layout> overlapping_layouts() {
  using spec::Layout;
  using enum spec::Recompute;
  return {
      Layout{.dp_shard = 2, .ep = 2, .ep_overlap = true},
      Layout{.dp_shard = 4, .ep = 2, .etp = 2, .ep_overlap = true, .zero = 3},
      Layout{.tp = 2, .ep = 2, .ep_overlap = true},
      Layout{.tp = 2, .sequence_parallel = false, .ep = 2, .ep_overlap = true, .recompute = full},
      Layout{.cp = 2, .ep = 2, .ep_overlap = true, .zero = 1},
      Layout{.pp = 2, .dp_shard = 2, .ep = 2, .ep_overlap = true, .zero = 1},
      Layout{.pp = 2, .dp_shard = 2, .ep = 2, .ep_overlap = true, .schedule = "dualpipe-v"_schedule},
      Layout{.dp_shard = 2, .ep = 2, .ep_overlap = true, .recompute = full, .offload = "values"},
      Layout{.dp_shard = 2, .ep = 2, .ep_overlap = true, .overlap = false},
  };
}

TEST(ExpertOverlap, EqualsOneDevice) {
  for (const bool is_latent : {false, true}) {
    References references;
    for (const spec::Layout& layout : overlapping_layouts()) {
      spec::Run run = with_experts(small_run(1), 4);
      if (is_latent) {
        run = with_latent_attention(run);
        run.model.shared_experts = 1;
      }
      run.model.vocab = 60;
      run.model.balance = spec::Balance::sequence;
      run.model.capacity_factor = 1;
      run.training.global_batch = 7;  // the last micro-batches are short, or empty
      run.layout = layout;
      run.layout.precision = spec::Precision::fp64;
      const auto found = verify_as_it_is(run, references);
      EXPECT_TRUE(found.passed()) << to_text(found);
    }
  }
}

}  // namespace
}  // namespace tessera::train
