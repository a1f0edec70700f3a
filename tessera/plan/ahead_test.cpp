// Does a pipeline with weights one version behind go on into the next step, and is it refused where it would
// not compute the same? About a second.
#include <gmock/gmock.h>

#include "tessera/plan/compile.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/program/check/check.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/ir/waits.hpp"
#include "tessera/simulate/report.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::plan {
namespace {

using program::Op;
using program::OpKind;
using testing::HasSubstr;

// One block a stage; the embedding and the head take no time.
program::Program two_versions(std::int64_t stages, std::int64_t micro_batches, bool overlaps = true,
                              spec::Schedule schedule = "pipedream-2bw"_schedule) {
  spec::Run run;
  run.model = {
      .layers = stages, .hidden = 16, .heads = 2, .kv_heads = 2, .ffn = 24, .vocab = 29, .sequence = 4};
  run.layout = {.pp = stages, .schedule = schedule, .overlap_steps = overlaps};
  run.layout.stages = "2";
  for (std::int64_t stage = 1; stage < stages; ++stage) run.layout.stages += stage + 1 < stages ? ",1" : ",2";
  run.training.global_batch = micro_batches;
  run.training.clip_norm = 0;
  return compile(run);
}

double bubble(const program::Program& program) {
  const auto costs = simulate::costs_by(program, [&](std::uint32_t, const Op& op) -> program::Cost {
    const bool is_block =
        program::is_compute(op.what) &&
        program.tables.units[program.tables.segments[op.item].unit].name.starts_with("block");
    return {.phases = {{-1, !is_block ? 0.0 : op.what == OpKind::forward ? 1.0 : 2.0}}};
  });
  return simulate::report(program, simulate::simulate(program, costs)).bubble;
}

TEST(Ahead, TheFirstForwardsOfAStepRunInTheStepBefore) {
  const program::Program program = two_versions(3, 4);
  for (std::size_t stage = 0; stage < 3; ++stage) {
    const auto& sequence = program.classes[stage];
    const auto places = program::places_ahead(sequence);
    std::set<std::int32_t> micros;
    for (std::size_t at = 0; at < sequence.ops.size(); ++at) {
      const Op& op = sequence.ops[at];
      if (op.lane != program::kAheadLane) continue;
      EXPECT_EQ(op.what, OpKind::forward);
      ASSERT_NE(places[at], program::kNoPlace);
      // As many backwards are left as there are forwards ahead from this one on.
      EXPECT_EQ(sequence.ops[places[at]].what, OpKind::backward);
      EXPECT_EQ(sequence.ops[places[at]].micro, static_cast<std::int32_t>(1 + stage) + op.micro);
      micros.insert(op.micro);
    }
    EXPECT_EQ(micros.size(), 2 - stage) << "stage " << stage;
  }
  EXPECT_FALSE(program::has_ahead(two_versions(3, 4, false)));
  EXPECT_FALSE(program::has_ahead(two_versions(3, 4, true, "1f1b"_schedule)));
}

TEST(Ahead, ThePipelineDoesNotRunDry) {
  for (const auto& [stages, micro_batches] : {std::pair{2, 4}, std::pair{8, 16}, std::pair{8, 8}}) {
    const double filled = bubble(two_versions(stages, micro_batches)),
                 dry = bubble(two_versions(stages, micro_batches, false, "1f1b"_schedule));
    EXPECT_NEAR(dry, (stages - 1.0) / (micro_batches + stages - 1.0), 1e-9);
    EXPECT_LT(filled, 0.01) << stages << " stages, " << micro_batches << " micro-batches";
  }
}

// Each edit makes a rank compute with another version, or wait for itself.
TEST(Ahead, OtherVersionsAreRefused) {
  const program::Program right = two_versions(2, 4);
  const auto edited = [&](auto edit) {
    program::Program program = right;
    auto& sequence = program.classes[0];
    edit(sequence.ops);
    program::build_waits(sequence, program.tables);
    return program::to_text(program::check(program));
  };
  const auto is_gathered_ahead = [](const Op& op) {
    return op.what == OpKind::gather && (op.flags & program::kAhead);
  };
  EXPECT_THAT(edited([&](auto& ops) { std::erase_if(ops, is_gathered_ahead); }),
              HasSubstr("which is not gathered for the next step"));
  EXPECT_THAT(edited([&](auto& ops) {
                const Op gather = *std::ranges::find_if(ops, is_gathered_ahead);
                std::erase_if(ops, is_gathered_ahead);
                ops.insert(ops.begin(), gather);
              }),
              HasSubstr("which was gathered for the next step already"));
  EXPECT_THAT(edited([&](auto& ops) {
                const Op gather = *std::ranges::find_if(ops, is_gathered_ahead);
                ops.erase(std::ranges::find_if(ops, is_gathered_ahead));
                ops.push_back(gather);
              }),
              HasSubstr("but the next step computes with the version before it"));
  EXPECT_THAT(edited([&](auto& ops) {
                for (Op& op : ops)
                  if (op.lane == program::kAheadLane) op.lane = program::kCompute;
              }),
              HasSubstr("computes on another lane than its own"));
  // The first rank puts them off until its last backward; for this the second waits, and for them.
  program::Program stuck = two_versions(3, 4);
  auto& sequence = stuck.classes[0];
  std::uint32_t last = 0;
  for (std::uint32_t at = 0; at < sequence.ops.size(); ++at)
    if (sequence.ops[at].what == OpKind::backward) last = at;
  std::vector<program::ExtraWait> waits;
  for (std::uint32_t at = 0; at < sequence.ops.size(); ++at)
    if (sequence.ops[at].lane == program::kAheadLane) waits.push_back({at, last | program::kPreviousStep});
  program::build_waits(sequence, stuck.tables, waits);
  EXPECT_THAT(program::to_text(program::check(stuck)),
              HasSubstr("stuck with forwards in the step before theirs"));
}

// There a cell waits for its place in memory; with six stages also for what a forward ahead would come
// before.
TEST(Ahead, OnAnAcceleratorForwardsStayInTheirStep) {
  program::Program program = two_versions(6, 6);
  EXPECT_NO_THROW(plan::place_in_slots(program));
  EXPECT_THAT(program::to_text(program::check(program)), HasSubstr("stuck with forwards in the step before"));
}

}  // namespace
}  // namespace tessera::plan
