// Is what layout.communication = auto chooses the fastest of what it may choose? Under a second.
#include <gmock/gmock.h>

#include <set>

#include "tessera/plan/compile.hpp"
#include "tessera/plan/step_seconds.hpp"
#include "tessera/plan/testing/of_run.hpp"

namespace tessera::plan {
namespace {

using spec::Communication;
using testing::HasSubstr;

// Four blocks on two ranks; `link_mbits` is next to what 20 GFLOP/s compute.
spec::Run slow_link(double link_mbits) {
  spec::Run run;
  run.model = {.layers = 4, .hidden = 64, .heads = 4, .kv_heads = 4, .ffn = 192, .vocab = 64, .sequence = 64};
  run.layout = {
      .dp_replicate = 2, .micro_batch = 4, .overlap_steps = true, .communication = Communication::automatic};
  run.training.global_batch = 8;
  run.training.clip_norm = 0;
  run.cluster.peak_tflops = 0.02;
  run.cluster.link_mbits = link_mbits;
  return run;
}

double seconds_with(spec::Run run, Communication communication, std::int64_t slice_kib = 0,
                    std::int64_t credit_kib = 0) {
  run.layout.communication = communication;
  run.layout.slice_kib = slice_kib;
  run.layout.credit_kib = credit_kib;
  return step_seconds(compile(run), rates_of(run.cluster));
}

TEST(CommunicationByItself, IsAsFastAsTheBestOrderSlicesAndCredit) {
  for (const double mbits : {50, 100, 200, 400, 800, 100'000}) {
    const spec::Run run = slow_link(mbits);
    std::string note;
    const double chosen = step_seconds(compile(run, &note), rates_of(run.cluster));
    double best = seconds_with(run, Communication::arrival);
    for (const std::int64_t slice_kib : {0, 24, 48, 64, 96})
      for (const std::int64_t credit_kib : {0, 96, 192})
        best = std::min(best, seconds_with(run, Communication::priority, slice_kib, credit_kib));
    EXPECT_LT(chosen, 1.02 * best) << mbits << " Mbit/s: " << note;
  }
}

TEST(CommunicationByItself, SaysWhatItTookAndKeepsToWhatIsAskedFor) {
  spec::Run run = slow_link(100);
  std::string note;
  compile(run, &note);
  EXPECT_THAT(note, HasSubstr("gradients are reduced by priority, in slices of "));
  run.layout.slice_kib = 20;
  run.layout.credit_kib = 40;
  note.clear();
  const auto program = compile(run, &note);
  EXPECT_EQ(note, "gradients are reduced by priority, in slices of 20 KiB, with a credit of 40 KiB");
  EXPECT_DOUBLE_EQ(step_seconds(program, rates_of(run.cluster)),
                   seconds_with(run, Communication::priority, 20, 40));
  run = slow_link(1e5);
  note.clear();
  compile(run, &note);
  EXPECT_EQ(note, "gradients are reduced as they arrive");
}

// The table of two stages stays on the channel that both know; others are spread over several.
TEST(Credit, LeavesBucketsThatStagesShareOnTheirChannel) {
  spec::Run run = slow_link(1);
  run.model.tied_embeddings = true;
  run.layout.pp = 2;
  run.layout.dp_replicate = 1;
  run.layout.dp_shard = 2;
  run.layout.zero = 1;
  run.layout.communication = Communication::priority;
  run.layout.slice_kib = 20;
  run.layout.credit_kib = 1000;
  const program::Program program = compile(run);
  std::set<std::string> channels, of_shared;
  for (const program::Sequence& stage : program.classes)
    for (const program::Op& op : stage.ops)
      if (op.what == program::OpKind::reduce && !(op.flags & program::kOfShard)) {
        const program::Bucket& bucket = program.tables.buckets[op.item];
        EXPECT_EQ(op.along, bucket.reduced_over) << bucket.name;
        const std::string name = program.tables.axis_sets[static_cast<std::size_t>(op.along)].name;
        (program.tables.meets_other_stages(bucket.shared_over) ? of_shared : channels).insert(name);
      }
  EXPECT_EQ(of_shared, std::set<std::string>{"shard.gradients"});
  EXPECT_GT(channels.size(), 2);
}

}  // namespace
}  // namespace tessera::plan
