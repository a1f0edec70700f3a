// Parameter servers: workers and servers together equal one device, and what they save goes on elsewhere.
// About 4 s.
#include "tessera/base/testing/one_in.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/program/check/check.hpp"
#include "tessera/program/ir/ranks.hpp"
#include "tessera/train/testing/saving_runs.hpp"
#include "tessera/verify/verify.hpp"

namespace tessera::train {
namespace {

using spec::Layout;

spec::Run served(Layout layout) {
  spec::Run run = small_run(1);
  layout.micro_batch = 2;
  run.layout = layout;
  return run;
}

TEST(Servers, WithWorkersEqualOneDevice) {
  References references;
  OneIn takes(3);
  for (const bool is_tied : {false, true})
    for (const Layout& layout :
         {Layout{.servers = 1}, Layout{.dp_shard = 3, .servers = 2},
          Layout{.pp = 2, .dp_shard = 2, .servers = 3, .recompute = spec::Recompute::full},
          Layout{.dp_shard = 2, .servers = 1, .tp = 2}, Layout{.pp = 2, .servers = 2, .tp = 2},
          Layout{.dp_shard = 2, .servers = 2, .tp = 2, .sequence_parallel = false, .overlap = false},
          Layout{.dp_shard = 2, .servers = 2, .tp = 4, .tp_kind = spec::TensorKind::d2},
          Layout{.dp_shard = 2, .servers = 2, .overlap_steps = true}}) {
      if (!takes()) continue;
      spec::Run run = served(layout);
      run.model.tied_embeddings = is_tied;
      run.model.kv_heads = run.model.heads, run.model.vocab = 64;
      run.training.global_batch = 11;  // the last micro-batch is short
      run.layout.precision = spec::Precision::fp64;
      const auto found = verify_as_it_is(run, references);
      EXPECT_TRUE(found.passed()) << to_text(found);
    }
}

TEST(Servers, HoldAllAndComputeNothing) {
  const auto program = plan::compile(served({.pp = 2, .dp_shard = 2, .servers = 2}));
  ASSERT_EQ(program.classes.size(), 4u);
  for (std::size_t rank = 0; rank < program.tables.class_of_rank.size(); ++rank) {
    const bool serves = program::is_server(program.tables, static_cast<mesh::Rank>(rank));
    for (const program::Op& op : program.classes[program.tables.class_of_rank[rank]].ops) {
      EXPECT_FALSE(serves && program::is_compute(op.what));
      EXPECT_FALSE(!serves && op.what == program::OpKind::step);
    }
  }
  // Ranks 2, 3 and 6, 7 are the servers of the first and of the second stage.
  EXPECT_EQ(program.tables.class_of_rank, (std::vector<std::uint32_t>{0, 0, 2, 2, 1, 1, 3, 3}));
}

TEST(Servers, AreNotTakenForWorkers) {
  const auto program = plan::compile(served({.dp_shard = 2, .servers = 1}));
  const auto refuses = [&](std::uint32_t of_class, program::OpKind what, std::uint16_t flags) {
    program::Program wrong = program;
    for (program::Op& op : wrong.classes[of_class].ops)
      if (op.what == what) {
        op.flags = static_cast<std::uint16_t>((op.flags & ~program::kSides) | flags);
        break;
      }
    return !program::check(wrong).empty();
  };
  for (const std::uint16_t flags : {std::uint16_t{0}, program::kOfServer})
    for (const auto what : {program::OpKind::gather, program::OpKind::reduce})
      EXPECT_TRUE(refuses(0, what, flags));
  for (const std::uint16_t flags : {std::uint16_t{0}, program::kOfWorker})
    for (const auto what : {program::OpKind::gather, program::OpKind::reduce})
      EXPECT_TRUE(refuses(1, what, flags));
  program::Program mixed = program;
  mixed.tables.class_of_rank = {0, 1, 1};
  EXPECT_FALSE(program::check(mixed).empty());
}

using ServersSaved = SavingRuns;

TEST_F(ServersSaved, GoOnWithoutServersAndBack) {
  const spec::Run with = served({.pp = 2, .dp_shard = 2, .servers = 3, .precision = spec::Precision::fp64}),
                  without = served({.dp_shard = 2, .zero = 1, .precision = spec::Precision::fp64});
  expect_goes_on(with, without, 1e-12);
  expect_goes_on(without, with, 1e-12);
}

}  // namespace
}  // namespace tessera::train
