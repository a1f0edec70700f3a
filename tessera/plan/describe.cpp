#include "tessera/plan/describe.hpp"

#include <algorithm>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/plan/axes.hpp"
#include "tessera/plan/buckets.hpp"
#include "tessera/plan/model/pieces.hpp"
#include "tessera/plan/stages/segments.hpp"
#include "tessera/program/passes/updates.hpp"

namespace tessera::plan {

using program::Bucket;
using program::Tables;

namespace {

// The losses of the model, each once: that of its head first, then in the order of its units.
std::vector<program::PieceLoss> losses_of(const ModelPlan& model) {
  std::vector<program::PieceLoss> out;
  const auto add = [&](const program::Unit& unit) {
    for (const program::Piece& piece : unit.pieces)
      for (const program::PieceLoss& loss : piece.losses)
        if (std::ranges::count(out, loss) == 0) out.push_back(loss);
  };
  add(model.head);
  add(model.embedding);
  std::ranges::for_each(model.blocks, add);
  return out;
}

void add_mesh(const ModelPlan& model, const spec::Layout& layout, bool is_pipeline, Tables& tables) {
  const auto losses = losses_of(model);
  tables.axes = axes_of(layout, model.key_ranks);
  add_inner_sets(model.sets, layout, tables);
  Axes parts = data_axes(tables);
  tables.numbers = {{"tokens", program::Role::tokens, parts}};
  for (const auto& [name, role] : {std::pair("positions", program::Role::positions),
                                   std::pair("tokens_ahead", program::Role::tokens_ahead)})
    if (std::ranges::count(losses, name, &program::PieceLoss::tokens) > 0)
      tables.numbers.push_back({name, role, parts});
  if (is_pipeline) {
    const Axes stages = stage_axes(tables);
    tables.stage_axis = stages.front();
    tables.values_over = set_of({"pp", stages}, tables);
    tables.gradients_over = set_of({"pp.gradients", stages}, tables);
    parts.insert(parts.begin(), stages.begin(), stages.end());
  }
  Axes loss_parts = parts;
  if (layout.tp > 1) append(loss_parts, loss_axes(layout, tables));
  for (const program::PieceLoss& loss : losses) {
    const bool in_parts = loss.in_parts || layout.tp_samples() > 1;
    tables.numbers.push_back({loss.name, program::Role::loss, in_parts ? loss_parts : parts});
  }
  for (const std::int16_t axis : channel_axes(tables))
    if (layout.in_blocks() ? tables.axes[static_cast<std::size_t>(axis)].size > 1 : layout.tp > 1)
      parts.push_back(axis);
  tables.numbers.push_back({"norm", program::Role::norm, parts});
  tables.numbers.push_back({"finite", program::Role::finite, parts});
  tables.class_of_rank.assign(static_cast<std::size_t>(layout.ranks()), 0);
}

}  // namespace

Tables describe(const StepRequest& request) {
  return describe(request, {}, cuts(request.layout, request.model.blocks));
}

Tables describe(const StepRequest& request, std::span<const std::uint32_t> rank_of_unit, const Cuts& cuts) {
  const spec::Layout& layout = request.layout;
  const ModelPlan& model = request.model;
  Tables tables;
  add_mesh(model, layout, !rank_of_unit.empty(), tables);
  TESSERA_CHECK(request.num_micro > 0 && request.num_micro <= std::numeric_limits<std::int32_t>::max(),
                request.num_micro, " micro-batches");
  tables.num_micro = static_cast<std::int32_t>(request.num_micro);
  add_buckets(request, rank_of_unit, tables);

  SegmentTable segments(layout.micro_batch * model.sequence / layout.cp, compute_dtype(layout.precision),
                        tables);
  segments.add(model.embedding, uncut(model.embedding));
  for (std::size_t i = 0; i < model.blocks.size(); ++i) segments.add(model.blocks[i], cuts.at(i));
  segments.add(model.head, uncut(model.head));
  assign_ends(tables);
  if (layout.overlap_steps) program::overlap_steps(tables, request.optimizer.clips_norm);
  return tables;
}

std::int64_t num_parameters(const Tables& tables) {
  std::int64_t total = 0;
  for (const Bucket& bucket : tables.buckets)
    for (const program::Parameter& parameter : bucket.parameters)
      total += num_elements(parameter.whole_shape());
  return total;
}

std::int64_t checkpoint_bytes(const Tables& tables) {
  std::int64_t total = 0;
  for (const Bucket& bucket : tables.buckets)
    for (const program::Parameter& parameter : bucket.parameters)
      total += num_elements(parameter.whole_shape()) * (bytes_of(bucket.storage) + bucket.state_bytes);
  return total;
}

std::int64_t num_active_parameters(const spec::Model& model, const Tables& tables) {
  std::int64_t other_experts = 0;
  for (std::int64_t layer = 0; layer < model.blocks(); ++layer)
    if (model.has_experts(layer)) other_experts += model.experts - model.experts_per_token;
  const std::int64_t other_rows = model.tied_embeddings ? 0 : model.vocab - 1;
  return num_parameters(tables) - 3 * other_experts * model.hidden * model.expert_width() -
         other_rows * model.hidden;
}

}  // namespace tessera::plan
