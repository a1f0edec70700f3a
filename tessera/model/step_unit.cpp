#include "tessera/model/step_unit.hpp"

#include <algorithm>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/program/ir/work.hpp"

namespace tessera::model {
namespace {

using Kind = program::Step::Kind;

// The steps of pieces [first, first + count), in their order.
std::vector<const program::Step*> steps_of(const program::Unit& unit, std::size_t first, std::size_t count) {
  TESSERA_CHECK(count > 0 && first + count <= unit.pieces.size(), count, " pieces from ", first, " of ",
                unit.name, ", which has ", unit.pieces.size());
  std::vector<const program::Step*> out;
  for (std::size_t piece = first; piece < first + count; ++piece)
    for (const program::Step& step : unit.pieces[piece].steps) out.push_back(&step);
  return out;
}

Batch part_of(const Batch& batch, const parallel::Share& share) {
  Batch out;
  out.samples = batch.samples / share.parts;
  out.documents.window = batch.documents.window;
  const auto first =
      batch.documents.ends.begin() + (batch.documents.ends.empty() ? 0 : out.samples * share.part);
  if (!batch.documents.ends.empty()) out.documents.ends.assign(first, first + out.samples);
  return out;
}

}  // namespace

Tensor branch_targets_T(const Batch& batch, const parallel::ParallelContext& context) {
  const parallel::Share& share = context.grid.branch;
  const std::int64_t tokens = batch.targets_T.size(0) / share.parts;
  return batch.targets_T.narrow(0, tokens * share.part, tokens);
}

bool StepUnit::has_step(const std::string& name) const {
  return std::ranges::any_of(described_.pieces, [&](const program::Piece& piece) {
    return std::ranges::count(piece.steps, name, &program::Step::name) > 0;
  });
}

void StepUnit::add(const std::string& name, Step step) {
  add_wide(name, [step = std::move(step)](const StepCall& call) { return std::vector{step(call)}; });
}

void StepUnit::add_wide(const std::string& name, WideStep step) {
  TESSERA_CHECK(has_step(name) && steps_.emplace(name, std::move(step)).second, described_.name,
                " has no step ", name, ", or two");
}

void StepUnit::check_complete() const {
  for (const program::Step* step : steps_of(described_, 0, described_.pieces.size()))
    TESSERA_CHECK(step->kind != Kind::work || steps_.contains(step->name), "step ", step->name, " of ",
                  described_.name, " has no code");
}

std::vector<Tensor> StepUnit::run(const program::Step& step, const StepCall& call) const {
  if (step.kind == Kind::work) return steps_.at(step.name)(call);
  const Tensor& value = call[step.reads.front()];
  if (step.kind == Kind::leave) return {to_stream(value, context_, call.result)};
  return {context_.regathers ? value : from_stream(value, context_)};  // or the product does
}

Outcome StepUnit::forward(std::size_t first, std::size_t count, std::vector<Tensor> values,
                          const Batch& batch, Tape& tape) {
  const auto steps = steps_of(described_, first, count);
  Outcome out;
  const bool shares_samples = context_.grid.branch.parts > 1;
  const Batch own = shares_samples ? part_of(batch, context_.grid.branch) : Batch();
  StepCall call{{}, batch, shares_samples ? own : batch, tape, out.losses};
  // As segments list them: what pieces read and do not write before, in the order in which they first do.
  std::size_t next = 0;
  std::set<std::string> known;
  for (const program::Step* step : steps) {
    for (const std::string& name : step->reads)
      if (known.insert(name).second) {
        TESSERA_CHECK(next < values.size(), values.size(), " values for ", described_.name, ", and ", name);
        call.values[name] = std::move(values[next++]);
      }
    known.insert(step->writes.begin(), step->writes.end());
  }
  TESSERA_CHECK(next == values.size(), values.size(), " values for ", next, " of ", described_.name);
  const std::vector<std::string>& wanted = described_.pieces[first + count - 1].writes;
  const auto is_needed = program::results_needed(steps);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    call.result =
        is_needed[i] || !tape.is_recomputed ? collective::Result::needed : collective::Result::unneeded;
    std::vector<Tensor> written = run(*steps[i], call);
    TESSERA_CHECK(written.size() == steps[i]->writes.size(), "step ", steps[i]->name, " made ",
                  written.size(), " values");
    for (std::size_t value = 0; value < written.size(); ++value)
      call.values[steps[i]->writes[value]] = std::move(written[value]);
    // What nobody reads any more goes at once.
    std::erase_if(call.values, [&](const auto& held) {
      return std::ranges::count(wanted, held.first) == 0 &&
             std::none_of(steps.begin() + static_cast<std::ptrdiff_t>(i) + 1, steps.end(),
                          [&](const program::Step* later) {
                            return std::ranges::count(later->reads, held.first) > 0;
                          });
    });
  }
  for (const std::string& name : wanted) out.values.push_back(std::move(call.values.at(name)));
  return out;
}

}  // namespace tessera::model
