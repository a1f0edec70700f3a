#include "tessera/plan/staging.hpp"

#include <charconv>
#include <filesystem>
#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/base/file_text.hpp"
#include "tessera/base/text.hpp"
#include "tessera/plan/family.hpp"
#include "tessera/plan/pieces.hpp"
#include "tessera/plan/schedule.hpp"
#include "tessera/program/deal.hpp"
#include "tessera/program/order_csv.hpp"
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

std::vector<StageCost> unit_costs(const Blueprint& parts) {
  std::vector<StageCost> out = {simulate::cost(parts.embedding, {})};
  for (const program::Unit& block : parts.blocks) out.push_back(simulate::cost(block, {}));
  out.push_back(simulate::cost(parts.head, {}));
  return out;
}

// Where the schedule will put the stages; `auto` may put them elsewhere.
std::vector<std::uint32_t> placement(const spec::Layout& layout) {
  const auto num_ranks = static_cast<std::uint32_t>(layout.pp);
  return spec::required_virtual_stages(layout.schedule) == 2
             ? program::vee(num_ranks)
             : program::looped(num_ranks, static_cast<std::uint32_t>(layout.num_virtual()));
}

std::vector<std::uint32_t> dealt(const spec::Layout& layout, const std::vector<StageCost>& costs,
                                 const std::vector<std::uint32_t>& rank_of_stage) {
  if (!layout.stages.empty()) return listed_stages(layout.stages, rank_of_stage.size(), costs.size());
  std::vector<double> seconds;
  for (const StageCost& cost : costs) seconds.push_back(cost.forward + cost.input + cost.weight);
  return program::deal(seconds, rank_of_stage);
}

program::Order order_of_file(const spec::Run& run) {
  const std::string& path = run.layout.schedule_file;
  if (!std::filesystem::is_regular_file(path))
    throw UserError(cat("layout.schedule_file = \"", path, "\" is no file"));
  program::Order order = program::parse_order_csv(file_text(path));
  if (static_cast<std::int64_t>(order.ranks.size()) != run.layout.pp ||
      order.num_micro != run.num_micro_batches())
    throw UserError(
        cat(path, " has ", order.ranks.size(), " ranks and ", order.num_micro,
            " micro-batches, the run layout.pp = ", run.layout.pp, " and ", run.num_micro_batches(),
            " micro-batches (training.global_batch / (dp * layout.micro_batch)). Make them equal."));
  hold_to_limit(order, run.layout.max_activations, path);
  return order;
}

}  // namespace

Staged stage(const spec::Run& run) {
  const spec::Layout& layout = run.layout;
  const auto costs = unit_costs(blueprint(run));
  program::Pipeline pipeline{static_cast<std::uint32_t>(layout.pp),
                             static_cast<std::uint32_t>(layout.num_virtual()),
                             static_cast<std::int32_t>(run.num_micro_batches())};
  Staged out;
  if (!layout.schedule_file.empty()) {
    out.order = order_of_file(run);
    pipeline.num_virtual = static_cast<std::uint32_t>(out.order.rank_of_stage.size()) / pipeline.num_ranks;
  }
  const auto counts =
      dealt(layout, costs, out.order.rank_of_stage.empty() ? placement(layout) : out.order.rank_of_stage);
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
  if (out.order.ranks.empty()) {
    Scheduled scheduled = schedule(layout.schedule, pipeline, layout.max_activations);
    out.order = std::move(scheduled.order);
    out.note = std::move(scheduled.note);
  }
  out.staging.costs = pipeline.costs;
  for (std::size_t s = 0; s < counts.size(); ++s)
    out.rank_of_unit.insert(out.rank_of_unit.end(), counts[s], out.order.rank_of_stage[s]);
  return out;
}

}  // namespace tessera::plan
