#include "tessera/plan/compile.hpp"

#include <algorithm>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/families/families.hpp"
#include "tessera/plan/communication.hpp"
#include "tessera/plan/describe.hpp"
#include "tessera/plan/memory/budget.hpp"
#include "tessera/plan/rates_of.hpp"
#include "tessera/plan/stages/segments.hpp"
#include "tessera/plan/stages/staging.hpp"
#include "tessera/program/check/check.hpp"
#include "tessera/program/memory/memory.hpp"
#include "tessera/program/passes/generate.hpp"
#include "tessera/simulate/costs.hpp"

namespace tessera::plan {

namespace {

program::Residency residency(const spec::Layout& layout) {
  program::Residency out{.overlap = layout.overlap, .keeps_full = layout.zero < 3};
  out.keep_bytes = layout.keep_mib << 20;
  out.prefetch = static_cast<std::uint32_t>(layout.prefetch);
  out.holds_back = layout.updates == spec::Updates::synchronous;  // servers take what is whole
  if (layout.zero >= 2) out.reduce_every = static_cast<std::int32_t>(layout.reduce_every);
  return out;
}

program::Offload offload(const spec::Layout& layout) {
  return {.optimizer = spec::offloads(layout, spec::Offload::optimizer),
          .parameters = spec::offloads(layout, spec::Offload::parameters),
          .values = spec::offloads(layout, spec::Offload::values)};
}

// Stages were dealt before a budget's choice was made: what it recomputes takes time too.
program::Staging timed(program::Staging staging, const spec::Run& run, std::span<const program::Unit> blocks,
                       const Cuts& cuts) {
  if (run.layout.recompute != spec::Recompute::budget) return staging;
  for (std::size_t stage = 0; stage < staging.costs.stages.size(); ++stage)
    for (std::size_t block = 0; block < blocks.size(); ++block)
      if (block + 1 >= staging.first_segment[stage] && block + 1 < staging.first_segment[stage + 1])
        staging.costs.stages[stage].input += recompute_seconds(blocks[block], cuts[block]);
  return staging;
}

}  // namespace

namespace {

// With one stage there is always a pair; of the pipelines only some have their pairs where no rank waits.
bool takes_turns(const spec::Layout& layout) {
  if (!layout.tp_overlap && !layout.ep_overlap) return false;
  return layout.pp == 1 || (layout.schedule_file.empty() && spec::entry(layout.schedule).traits.is_paired);
}

program::GenerateOptions generate_options(const spec::Run& run, const program::Tables& tables) {
  const spec::Layout& layout = run.layout;
  const std::int64_t ahead_bytes = layout.receive_ahead_mib << 20;
  const std::int64_t value_bytes = std::max<std::int64_t>(tables.values.front().bytes, 1);
  const auto ahead = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(ahead_bytes / value_bytes, 1, std::numeric_limits<std::uint32_t>::max()));
  program::GenerateOptions out{.residency = residency(layout),
                               .offload = offload(layout),
                               .take_turns = takes_turns(layout),
                               .take_server_turns = layout.updates != spec::Updates::synchronous,
                               .receives_ahead = ahead};
  if (layout.communication == spec::Communication::priority)
    out.priority = {.seconds =
                        [rates = rates_of(run)](const program::Op& op, const program::Tables& tables) {
                          return simulate::total_seconds(simulate::cost(op, tables, rates));
                        },
                    .credit_bytes = layout.credit_kib << 10};
  return out;
}

void expect_right(const program::Program& program, const char* what,
                  const program::CheckOptions& options = {}) {
  const auto problems = program::check(program, options);
  TESSERA_CHECK(problems.empty(), what, ":\n", program::to_text(problems));
}

}  // namespace

program::Program compile_cut(const spec::Run& run, const Blueprint& model, const Staged& staged,
                             const Cuts& cuts) {
  const bool is_pipeline = run.layout.pp > 1;
  const auto tables = describe(
      run, model, is_pipeline ? std::span(staged.rank_of_unit) : std::span<const std::uint32_t>(), cuts);
  return program::generate(tables, staged.order,
                           in_segments(timed(staged.staging, run, model.blocks, cuts), tables),
                           generate_options(run, tables));
}

namespace {

Cuts chosen_cuts(const spec::Run& run, const Blueprint& model, const Staged& staged) {
  if (run.layout.recompute != spec::Recompute::budget) return cuts(run.layout, model.blocks);
  const auto peaks_of = [&](const Cuts& cuts) {
    const program::Program program = compile_cut(run, model, staged, cuts);
    std::vector<std::int64_t> peaks;
    for (const program::Sequence& sequence : program.classes)
      peaks.push_back(program::replay_memory(sequence, program.tables).peak_bytes);
    return peaks;
  };
  return cuts_within({run.layout.memory_limit_mib << 20, staged, peaks_of}, run, model.blocks);
}

}  // namespace

Staged stage(const spec::Run& run) { return stage(run, families::blueprint(run)); }

program::Program compile_unchecked(const spec::Run& run, std::string* note) {
  const Blueprint model = families::blueprint(run);
  const Staged staged = stage(run, model);
  if (note) *note = staged.note;
  if (run.layout.communication != spec::Communication::automatic)
    return compile_cut(run, model, staged, chosen_cuts(run, model, staged));
  // A budget compiles very many programs: what is communicated in which order is settled before.
  const bool has_budget = run.layout.recompute == spec::Recompute::budget;
  spec::Run changed = run;
  if (has_budget) changed.layout.recompute = spec::Recompute::none;
  const Cuts given = cuts(changed.layout, model.blocks);
  Candidate best = fastest_communication(changed.layout, [&](const spec::Layout& layout) {
    changed.layout = layout;
    Candidate out{layout, compile_cut(changed, model, staged, given)};
    out.seconds = step_seconds(changed, out.program);
    return out;
  });
  if (note) *note += cat(note->empty() ? "" : "; ", communication_words(best.layout));
  if (!has_budget) return std::move(best.program);
  changed.layout = best.layout;
  changed.layout.recompute = spec::Recompute::budget;
  return compile_cut(changed, model, staged, chosen_cuts(changed, model, staged));
}

program::Program compile(const spec::Run& run, std::string* note) {
  program::Program out = compile_unchecked(run, note);
  expect_right(out, "the compiled program is wrong");
  return out;
}

std::vector<program::Sequence> compile_evaluation(const spec::Run& run, const program::Tables& tables) {
  const Staged staged = stage(run);
  program::Tables newest = tables;
  for (program::Bucket& bucket : newest.buckets) bucket.delayed = false;
  newest.steps_overlap = false;
  program::GenerateOptions options = generate_options(run, tables);
  options.offload = {.parameters = options.offload.parameters};
  program::Program out = program::generate(newest, program::forwards_of(staged.order),
                                           in_segments(staged.staging, tables), options);
  expect_right(out, "the program that evaluates is wrong");
  return std::move(out.classes);
}

std::vector<program::Slots> place_in_slots(program::Program& program) {
  std::vector<program::Slots> out = program::place_in_slots(program);
  expect_right(program, "the program is wrong with its slots", {.runs_ahead = false});
  return out;
}

}  // namespace tessera::plan
