// A block that predicts the token after the next, in every kind of layout. About 10 s.
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/base/testing/one_in.hpp"
#include "tessera/train/testing/small_runs.hpp"
#include "tessera/verify/verify.hpp"

namespace tessera::train {
namespace {

spec::Run run_ahead(const spec::Layout& layout) {
  spec::Run run = with_latent_attention(small_run(1));
  run.model.layers = 4;
  run.model.vocab = 60;
  run.model.experts = 4, run.model.expert_ffn = 16, run.model.shared_experts = 1, run.model.dense_layers = 1;
  run.model.balance = spec::Balance::sequence;
  run.model.mtp_layers = 1;
  run.training.global_batch = 7;  // the last micro-batches are short, or empty
  run.layout = layout;
  run.layout.precision = spec::Precision::fp64;
  return run;
}

std::vector<spec::Layout> ahead_layouts() {
  using spec::Layout;
  return {
      Layout{.dp_replicate = 2},
      Layout{.dp_shard = 2, .ep = 2, .zero = 3},
      Layout{.tp = 2},
      Layout{.tp = 2, .sequence_parallel = false, .ep = 2},
      Layout{.cp = 2, .zero = 1},
      Layout{.dp_shard = 2, .tp = 2, .ep = 2, .etp = 2, .zero = 2},
      Layout{.pp = 2, .dp_shard = 2, .ep = 2, .zero = 1},
      Layout{.pp = 2, .tp = 2, .schedule = "zb-h1"_schedule},
      Layout{
          .pp = 2, .dp_shard = 2, .zero = 1, .schedule = "zb-v"_schedule, .recompute = spec::Recompute::full},
      Layout{.pp = 2, .cp = 2, .schedule = "dualpipe-v"_schedule},
  };
}

void expect_equal_to_one_device(bool is_tied) {
  References references;
  OneIn takes(is_tied ? 4 : 3);
  for (const spec::Layout& layout : ahead_layouts()) {
    if (!takes()) continue;
    spec::Run run = run_ahead(layout);
    run.model.tied_embeddings = is_tied;
    if (is_tied) run.data.document_end = "\n";
    const auto found = verify_as_it_is(run, references);
    EXPECT_TRUE(found.passed()) << to_text(found);
  }
}

TEST(Ahead, EqualsOneDevice) { expect_equal_to_one_device(/*is_tied=*/false); }

TEST(Ahead, EqualsOneDeviceWithTiedTablesAndDocuments) { expect_equal_to_one_device(/*is_tied=*/true); }

// Its loss is divided by what it counts: one position of a sample less than the loss of the next token.
TEST(Ahead, IsCountedOnItsOwn) {
  const spec::Run run = run_ahead({});
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    Session session(session_plan(run), alone, random_source(run.model));
    const auto losses = session.step().losses;
    ASSERT_EQ(losses.size(), 3u);
    EXPECT_EQ(losses[0].name, "loss");
    EXPECT_EQ(losses[1].name, "balance");
    EXPECT_EQ(losses[2].name, "mtp");
    // Of a model that knows nothing, the logarithm of the vocabulary.
    EXPECT_NEAR(losses[2].mean, 0.3 * std::log(60.0), 0.03);
  });
}

}  // namespace
}  // namespace tessera::train
