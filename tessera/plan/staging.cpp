#include "tessera/plan/staging.hpp"

#include <charconv>
#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/plan/family.hpp"
#include "tessera/plan/pieces.hpp"
#include "tessera/plan/schedule.hpp"
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

std::vector<std::uint32_t> deal(const std::vector<StageCost>& costs, std::uint32_t num_stages) {
  std::vector<std::uint32_t> out(num_stages, static_cast<std::uint32_t>(costs.size() / num_stages));
  for (std::size_t i = 0; i < costs.size() % num_stages; ++i) ++out[i];
  return out;
}

std::vector<StageCost> unit_costs(const Blueprint& parts) {
  std::vector<StageCost> out = {simulate::cost(parts.embedding, {})};
  for (const program::Unit& block : parts.blocks) out.push_back(simulate::cost(block, {}));
  out.push_back(simulate::cost(parts.head, {}));
  return out;
}

}  // namespace

Staged stage(const spec::Run& run) {
  const spec::Layout& layout = run.layout;
  const auto costs = unit_costs(blueprint(run));
  program::Pipeline pipeline{static_cast<std::uint32_t>(layout.pp),
                             static_cast<std::uint32_t>(layout.num_virtual()),
                             static_cast<std::int32_t>(run.num_micro_batches())};
  const auto counts = layout.stages.empty()
                          ? deal(costs, pipeline.num_stages())
                          : listed_stages(layout.stages, pipeline.num_stages(), costs.size());
  Staged out;
  auto& first = out.staging.first_segment;
  first = {0};
  for (const std::uint32_t count : counts) {
    StageCost stage{0, 0, 0};
    for (std::uint32_t unit = first.back(); unit < first.back() + count; ++unit) {
      stage.forward += costs[unit].forward;
      stage.input += costs[unit].input;
      stage.weight += costs[unit].weight;
    }
    pipeline.costs.stages.push_back(stage);
    first.push_back(first.back() + count);
  }
  const std::int64_t hidden_bytes =
      layout.micro_batch * run.model.sequence * run.model.hidden * bytes_of(compute_dtype(layout.precision));
  pipeline.costs.transfer = simulate::transfer_seconds(static_cast<double>(hidden_bytes), {});
  Scheduled scheduled = schedule(
      layout.schedule, pipeline,
      layout.max_activations == 0 ? std::numeric_limits<std::int64_t>::max() : layout.max_activations);
  out.order = std::move(scheduled.order);
  out.note = std::move(scheduled.note);
  out.staging.costs = pipeline.costs;
  for (std::size_t s = 0; s < counts.size(); ++s)
    out.rank_of_unit.insert(out.rank_of_unit.end(), counts[s], out.order.rank_of_stage[s]);
  return out;
}

}  // namespace tessera::plan
