#include "tessera/plan/stages/staging.hpp"

#include <charconv>
#include <filesystem>
#include <numeric>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/base/text.hpp"
#include "tessera/plan/stages/cuts.hpp"
#include "tessera/plan/stages/schedule.hpp"
#include "tessera/program/schedule/balance_stages.hpp"
#include "tessera/program/schedule/order_csv.hpp"
#include "tessera/simulate/rates.hpp"

namespace tessera::plan {
namespace {

using program::StageCost;

// "3,2,2,3"
std::vector<std::uint32_t> listed_stages(const std::string& text, std::size_t num_stages,
                                         std::size_t num_units) {
  std::vector<std::uint32_t> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::uint32_t count = 0;
    const auto [rest, error] = std::from_chars(text.data() + at, text.data() + end, count);
    if (error != std::errc() || rest != text.data() + end || count == 0)
      throw UserError(cat("layout.stages = \"", text, "\" is no list of counts above 0, such as 3,2,2,3"));
    out.push_back(count);
    at = end + 1;
  }
  const auto total = std::accumulate(out.begin(), out.end(), std::uint64_t{0});
  if (out.size() != num_stages || total != num_units)
    throw UserError(cat("layout.stages = \"", text, "\" deals ", total, " units to ", out.size(),
                        " stages; the model has ", num_units, " (embedding, blocks, head) and the layout ",
                        num_stages, " stages"));
  return out;
}

// What is recomputed is so in the input half. A budget's choice comes after the stages: until then nothing
// is.
std::vector<StageCost> unit_costs(const spec::Layout& layout, const ModelPlan& parts) {
  std::vector<StageCost> out = {simulate::cost(parts.embedding, {})};
  for (const program::Unit& block : parts.blocks) out.push_back(simulate::cost(block, {}));
  out.push_back(simulate::cost(parts.head, {}));
  if (layout.recompute == spec::Recompute::budget) return out;
  const Cuts chosen = cuts(layout, parts.blocks);
  for (std::size_t i = 0; i < chosen.size(); ++i)
    out[i + 1].input += recompute_seconds(parts.blocks[i], chosen[i]);
  return out;
}

std::vector<double> seconds_of(const std::vector<StageCost>& costs) {
  std::vector<double> out;
  for (const StageCost& cost : costs) out.push_back(cost.forward + cost.input + cost.weight);
  return out;
}

std::vector<std::uint32_t> dealt(const spec::Layout& layout, const std::vector<StageCost>& costs,
                                 const std::vector<std::uint32_t>& rank_of_stage) {
  if (!layout.stages.empty()) return listed_stages(layout.stages, rank_of_stage.size(), costs.size());
  return program::balance_stages(seconds_of(costs), rank_of_stage);
}

// The units dealt to stages that lie so.
program::Staging staging(const StepRequest& request, const std::vector<std::uint32_t>& rank_of_stage) {
  const auto costs = unit_costs(request.layout, request.model);
  program::Staging out{{0}, {}};
  for (const std::uint32_t count : dealt(request.layout, costs, rank_of_stage)) {
    StageCost stage{0, 0, 0};
    const std::uint32_t end = out.first_segment.back() + count;
    for (std::uint32_t unit = out.first_segment.back(); unit < end; ++unit) {
      stage.forward += costs[unit].forward;
      stage.input += costs[unit].input;
      stage.weight += costs[unit].weight;
    }
    out.costs.stages.push_back(stage);
    out.first_segment.push_back(end);
  }
  out.costs.transfer = simulate::transfer_seconds(static_cast<double>(request.model.hidden_bytes), {});
  return out;
}

program::Order order_of_file(const StepRequest& request) {
  const std::string& path = request.layout.schedule_file;
  if (!std::filesystem::is_regular_file(path))
    throw UserError(cat("layout.schedule_file = \"", path, "\" is no file"));
  program::Order order = program::parse_order_csv(file_text(path));
  if (static_cast<std::int64_t>(order.ranks.size()) != request.layout.pp ||
      order.num_micro != request.num_micro)
    throw UserError(
        cat(path, " has ", order.ranks.size(), " ranks and ", order.num_micro,
            " micro-batches, the run layout.pp = ", request.layout.pp, " and ", request.num_micro,
            " micro-batches (training.global_batch / (dp * layout.micro_batch)). Make them equal."));
  hold_to_limit(order, request.layout.max_activations, path);
  return order;
}

program::Pipeline pipeline_of(const StepRequest& request, std::int64_t num_virtual) {
  return {static_cast<std::uint32_t>(request.layout.pp),
          static_cast<std::uint32_t>(num_virtual),
          static_cast<std::int32_t>(request.num_micro),
          {}};
}

Staged stage_by_file(const StepRequest& request) {
  Staged out;
  out.order = order_of_file(request);
  out.staging = staging(request, out.order.rank_of_stage);
  return out;
}

Staged stage_by_name(const StepRequest& request) {
  program::Pipeline pipeline = pipeline_of(request, request.layout.num_virtual());
  const bool is_v = spec::entry(request.layout.schedule).num_virtual == 2;
  Staged out;
  out.staging = staging(request, is_v ? program::vee(pipeline.num_ranks)
                                      : program::looped(pipeline.num_ranks, pipeline.num_virtual));
  pipeline.costs = out.staging.costs;
  Scheduled scheduled = schedule(request.layout.schedule, pipeline, request.layout.max_activations);
  out.order = std::move(scheduled.order);
  out.note = std::move(scheduled.note);
  return out;
}

// Units are dealt anew for each placement, with fewer stages per rank too: a stage of several units can't be
// split as evenly as the model, and the fixed schedules have one or two. A user's list says how many there
// are.
Staged stage_by_search(const StepRequest& request) {
  std::set<std::int64_t> nums_virtual = {request.layout.num_virtual()};
  if (request.layout.stages.empty())
    for (const std::int64_t fewer : {1, 2})
      if (fewer < request.layout.num_virtual()) nums_virtual.insert(fewer);
  std::vector<program::Placed> placed;
  std::vector<program::Staging> stagings;
  for (const std::int64_t num_virtual : nums_virtual)
    for (program::Placed& p : program::placements(pipeline_of(request, num_virtual))) {
      stagings.push_back(staging(request, p.rank_of_stage));
      p.pipeline.costs = stagings.back().costs;
      placed.push_back(std::move(p));
    }
  program::Found found = automatic(placed, request.layout.max_activations);
  Staged out;
  out.order = std::move(found.order);
  out.staging = std::move(stagings[found.placed]);
  out.note = cat("auto: ", found.winner);
  return out;
}

}  // namespace

std::vector<double> dealing_seconds(const spec::Layout& layout, const ModelPlan& model) {
  return seconds_of(unit_costs(layout, model));
}

Staged stage(const StepRequest& request) {
  Staged out = !request.layout.schedule_file.empty()                   ? stage_by_file(request)
               : spec::entry(request.layout.schedule).traits.is_search ? stage_by_search(request)
                                                                       : stage_by_name(request);
  const auto& first = out.staging.first_segment;
  for (std::size_t s = 0; s + 1 < first.size(); ++s)
    out.rank_of_unit.insert(out.rank_of_unit.end(), first[s + 1] - first[s], out.order.rank_of_stage[s]);
  return out;
}

}  // namespace tessera::plan
