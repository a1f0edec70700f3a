#include "tessera/plan/buckets.hpp"

#include <algorithm>
#include <map>

#include "tessera/base/error.hpp"
#include "tessera/plan/axes.hpp"
#include "tessera/plan/model/pieces.hpp"

namespace tessera::plan {
namespace {

using program::Bucket;
using program::Placement;
using program::Tables;

// How a parameter lies on the axes of tp; or, of experts, on those that fold.
struct OnTp {
  struct Cut {
    std::int16_t dim = kOwnDim;
    std::vector<std::string> axes;
    auto operator<=>(const Cut&) const = default;
  };
  static constexpr std::int16_t kOwnDim = -1;  // the one that its family cuts
  std::vector<std::pair<std::string, Placement>> axes;
  std::vector<Cut> cuts;  // parts are numbered with the last varying fastest
  bool of_experts = false;
  auto operator<=>(const OnTp&) const = default;
  std::vector<std::string> cutting_axes() const {
    std::vector<std::string> out;
    for (const Cut& cut : cuts) out.insert(out.end(), cut.axes.begin(), cut.axes.end());
    return out;
  }
};

// Cut by these axes, and whole on the others, which use it for other tokens.
OnTp cut_by(std::vector<OnTp::Cut> cuts, std::initializer_list<const char*> axes) {
  OnTp out{.cuts = std::move(cuts)};
  const auto cutting = out.cutting_axes();
  for (const char* axis : axes) {
    const bool cuts_it = std::ranges::count(cutting, axis) > 0;
    out.axes.emplace_back(axis, cuts_it ? Placement::sharded : Placement::replicated);
  }
  return out;
}

// key_ranks: see ModelPlan.
OnTp on_row(TensorPlacement placement, const spec::Layout& layout, std::int64_t key_ranks) {
  const auto cut = [](std::vector<std::string> by) {
    return cut_by({{OnTp::kOwnDim, std::move(by)}}, {"tp_kv", "tp_rep"});
  };
  const OnTp invariant{.axes = {{"tp_kv", Placement::invariant}, {"tp_rep", Placement::invariant}}};
  if (layout.tp == 1) return invariant;
  switch (placement) {
    case TensorPlacement::by_stream:
      return layout.sequence_parallel ? cut_by({}, {"tp_kv", "tp_rep"}) : invariant;
    case TensorPlacement::by_heads:
      return cut_by({}, {"tp_kv", "tp_rep"});
    case TensorPlacement::cut:
      return cut({"tp_kv", "tp_rep"});
    case TensorPlacement::with_keys:
      return layout.tp_channels() > key_ranks ? cut({"tp_kv"}) : cut({"tp_kv", "tp_rep"});
    case TensorPlacement::experts:
      break;
  }
  throw Bug("a parameter that lies in no known way");
}

// See parallel/blocks/grid.hpp. What its family cuts by rows leads from the stream into a branch, what it
// cuts by columns back.
OnTp on_grid(const PlacedParameter& placed, spec::TensorKind kind) {
  const bool is_cube = kind == spec::TensorKind::d3, is_matrix = placed.parameter.shape.size() == 2;
  const auto lie = [](std::vector<OnTp::Cut> cuts) {
    return cut_by(std::move(cuts), {"tp_depth", "tp_row", "tp_col"});
  };
  switch (placed.placement) {
    case TensorPlacement::by_stream:
      return lie({{static_cast<std::int16_t>(is_matrix ? 1 : 0), {"tp_col"}}});
    case TensorPlacement::by_heads:
      return lie({});
    case TensorPlacement::cut:
    case TensorPlacement::with_keys: {
      if (!is_matrix) return lie({{0, {is_cube ? "tp_row" : "tp_col"}}});
      if (!is_cube) return lie({{1, {"tp_row"}}, {0, {"tp_col"}}});
      const bool enters = placed.parameter.cuts.front().dim == 0;
      return enters ? lie({{1, {"tp_col", "tp_depth"}}, {0, {"tp_row"}}})
                    : lie({{1, {"tp_row", "tp_depth"}}, {0, {"tp_col"}}});
    }
    case TensorPlacement::experts:
      break;
  }
  throw Bug("a parameter that lies in no known way");
}

OnTp on_tp(const PlacedParameter& placed, const spec::Layout& layout, std::int64_t key_ranks) {
  if (placed.placement == TensorPlacement::experts) return {.of_experts = true};
  return layout.in_blocks() ? on_grid(placed, layout.tp_kind) : on_row(placed.placement, layout, key_ranks);
}

// Names of axes, as one; those of 1d have one together.
std::string joint_name(const std::vector<std::string>& axes) {
  return axes == std::vector<std::string>{"tp_kv", "tp_rep"} ? "tp" : join(axes, "+");
}

// The axes of tp over which its gradient is partial, and what a set with them is called.
struct Partial {
  Axes axes;
  std::string name;
};
Partial partial_over(const OnTp& on, const Tables& tables) {
  std::vector<std::string> names;
  for (const auto& [axis, placement] : on.axes) {
    const bool is_of_grid = axis != "tp_kv" && axis != "tp_rep";
    if (is_of_grid && ranks_along(axes_called(tables, axis), tables) == 1) continue;
    if (placement == Placement::replicated) names.push_back(axis);
  }
  return {axes_called(tables, names), joint_name(names)};
}

// See Note [Fold] in axes.cpp: tokens of all ranks that share experts come together at each of them.
void place_experts(Bucket& bucket, const spec::Layout& layout, Tables& tables) {
  using program::ExpertRole;
  bucket.placement.clear();
  Axes replicas = replica_axes(tables);
  const Axes data = expert_axes(tables, ExpertRole::data);
  const auto lie = [&](const Axes& axes, Placement placement) {
    for (const std::int16_t axis : axes) bucket.placement.push_back({axis, placement});
  };
  lie(replicas, Placement::replicated);
  lie(data, Placement::replicated);
  lie(expert_axes(tables, ExpertRole::experts), Placement::sharded);
  lie(expert_axes(tables, ExpertRole::slices), Placement::sharded);
  if (layout.ep * layout.etp > 1) bucket.cut_over = tables.set_called("experts");
  if (layout.zero == 0) {
    append(replicas, data);
    bucket.reduced_over = set_of({"experts.dp", replicas}, tables);
    return;
  }
  bucket.sharded_over = set_of({"experts.shard", data}, tables);
  bucket.reduced_over = set_of({"experts.shard.gradients", data}, tables);
  if (ranks_along(replicas, tables) > 1) bucket.shared_over = set_of({"experts.replicas", replicas}, tables);
}

// Where a bucket is summed, and cut. With zero 1 and up the ranks along the axes that shard hold a part each,
// or the servers of these; replicas of a part are summed last. `stages`: the two that share it, if any do.
void place(Bucket& bucket, const OnTp& on, const std::vector<std::int64_t>& stages,
           const spec::Layout& layout, Tables& tables) {
  if (on.of_experts) return place_experts(bucket, layout, tables);
  bucket.placement.clear();
  const auto lie = [&](const Axes& axes, Placement placement) {
    for (const std::int16_t axis : axes) bucket.placement.push_back({axis, placement});
  };
  if (!stages.empty()) lie(stage_axes(tables), Placement::replicated);
  lie(data_axes(tables), Placement::replicated);
  for (const auto& [axis, placement] : on.axes) lie(axes_called(tables, axis), placement);
  if (const auto cutting = on.cutting_axes(); !cutting.empty())
    bucket.cut_over = set_of({joint_name(cutting), axes_called(tables, cutting)}, tables);

  const Partial partial = partial_over(on, tables);
  const auto channel = [&](const std::string& name, Axes axes) {
    append(axes, partial.axes);
    if (!stages.empty()) axes.insert(axes.begin(), tables.stage_axis);
    const std::string base = stages.empty() ? name : "tied";
    return set_of({base + (partial.axes.empty() ? "" : "+" + partial.name), axes, stages}, tables);
  };
  if (layout.zero == 0 && layout.servers == 0) {
    bucket.reduced_over = channel("dp", data_axes(tables));
    return;
  }
  bucket.sharded_over = set_of({"shard", shard_axes(tables)}, tables);
  bucket.reduced_over = set_of({"shard.gradients", shard_axes(tables)}, tables);
  if (ranks_along(replica_axes(tables), tables) > 1 || !partial.axes.empty() || !stages.empty())
    bucket.shared_over = channel("replicas", replica_axes(tables));
}

program::Wire wire_of(spec::Compression compression) {
  switch (compression) {
    case spec::Compression::none:
      return program::Wire::exact;
    case spec::Compression::bf16:
      return program::Wire::bf16;
    case spec::Compression::int8:
      return program::Wire::int8;
    case spec::Compression::powersgd:
      return program::Wire::thin;
  }
  return program::Wire::exact;
}

class Buckets {
 public:
  Buckets(const StepRequest& request, std::span<const std::uint32_t> rank_of_unit, Tables& tables)
      : request_(request), layout_(request.layout), rank_of_unit_(rank_of_unit), tables_(tables) {}

  // Parameters that lie alike share a bucket; the first takes the name as it is. `tied` is read by the first
  // stage and by the last. `unit` computes with them, if it is one that does.
  void add(const std::string& name, PlacedParameters parameters, bool weight_decay, bool is_tied = false,
           const program::Unit* unit = nullptr) {
    std::vector<Alike> groups;
    for (PlacedParameter& placed : parameters) {
      const Kind kind{on_tp(placed, layout_, request_.model.key_ranks), placed.is_wide, placed.rule,
                      placed.sign_rate};
      auto found = std::ranges::find(groups, kind, &Alike::kind);
      if (found == groups.end()) found = groups.insert(found, {kind, {}});
      found->parameters.push_back(part_of(std::move(placed.parameter), kind.on));
    }
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const std::string called = i == 0 ? name : name + suffix(groups[i].kind);
      const auto slices = in_slices(std::move(groups[i].parameters), unit);
      for (std::size_t slice = 0; slice < slices.size(); ++slice)
        add_alike(slice == 0 ? called : cat(called, ".", slice), {groups[i].kind, slices[slice]},
                  weight_decay, is_tied && i == 0);
    }
  }

  // Norms and biases of the units after the embedding, one per pipeline rank.
  void add_vectors(std::vector<PlacedParameters> of_units) {
    std::map<std::uint32_t, PlacedParameters> by_rank;
    for (std::size_t i = 0; i < of_units.size(); ++i)
      for (auto& parameter : of_units[i])
        by_rank[rank_of_unit_.empty() ? 0 : rank_of_unit_[i + 1]].push_back(std::move(parameter));
    for (auto& [rank, parameters] : by_rank)
      add(rank_of_unit_.empty() ? "vectors" : cat("vectors.", rank), std::move(parameters), false);
  }

 private:
  struct Kind {
    OnTp on;
    bool is_wide = false;
    program::UpdateRule rule = program::UpdateRule::optimizer;
    double sign_rate = 0;
    auto operator<=>(const Kind&) const = default;
  };
  struct Alike {
    Kind kind;
    std::vector<program::Parameter> parameters;
  };

  // Whether they are multiplied as one matrix, and so must lie side by side.
  static bool are_joined(const program::Unit& unit, const std::string& a, const std::string& b) {
    const auto has_both = [&](const std::vector<std::string>& names) {
      return std::ranges::count(names, a) > 0 && std::ranges::count(names, b) > 0;
    };
    return std::ranges::any_of(unit.pieces, [&](const program::Piece& piece) {
      if (piece.steps.empty()) return has_both(piece.parameters);
      return std::ranges::any_of(piece.steps,
                                 [&](const program::Step& step) { return has_both(step.parameters); });
    });
  }

  // Of layout.slice_kib at most, but for what is larger by itself.
  std::vector<std::vector<program::Parameter>> in_slices(std::vector<program::Parameter> parameters,
                                                         const program::Unit* unit) const {
    const std::int64_t limit = layout_.slice_kib << 10;
    std::vector<std::vector<program::Parameter>> out(1);
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < parameters.size();) {
      std::size_t end = i + 1;
      const auto bytes_of = [&](const program::Parameter& p) {
        return p.elements() * program::bytes_of(storage_dtype(layout_.precision));
      };
      std::int64_t more = bytes_of(parameters[i]);
      for (; end < parameters.size() && unit &&
             are_joined(*unit, parameters[end - 1].name, parameters[end].name);
           ++end)
        more += bytes_of(parameters[end]);
      if (limit > 0 && unit && !out.back().empty() && bytes + more > limit) {
        out.emplace_back();
        bytes = 0;
      }
      bytes += more;
      for (; i < end; ++i) out.back().push_back(std::move(parameters[i]));
    }
    return out;
  }

  static std::string suffix(const Kind& kind) {
    if (kind.rule == program::UpdateRule::sign) return ".balance";
    if (kind.on.of_experts) return ".experts";
    if (kind.is_wide) return ".router";
    const auto cutting = kind.on.cutting_axes();
    if (cutting.empty()) return ".whole";
    if (cutting.front() != "tp_kv") return cat(".", joint_name(cutting));
    return cutting.size() == 1 ? ".keys" : ".cut";
  }

  program::Parameter part_of(program::Parameter parameter, const OnTp& on) const {
    const auto cut = [&](std::size_t i, std::int64_t parts) {
      parameter.cuts[i].parts = parts;
      parameter.shape.at(static_cast<std::size_t>(parameter.cuts[i].dim)) /= parts;
    };
    if (on.of_experts) {
      cut(0, layout_.ep), cut(1, layout_.etp);
    } else {
      parameter.cuts.resize(on.cuts.size());
      for (std::size_t i = 0; i < on.cuts.size(); ++i) {
        if (on.cuts[i].dim != OnTp::kOwnDim) parameter.cuts[i].dim = on.cuts[i].dim;
        cut(i, ranks_along(axes_called(tables_, on.cuts[i].axes), tables_));
      }
    }
    std::erase_if(parameter.cuts, [](const program::DimCut& cut) { return cut.parts == 1; });
    return parameter;
  }

  std::int64_t slices_along(const Axes& axes) const {
    std::int64_t slices = 1;
    for (const std::int16_t index : axes) {
      const program::Axis& axis = tables_.axes[static_cast<std::size_t>(index)];
      slices *= axis.servers > 0 ? axis.servers : axis.size;
    }
    return slices;
  }

  // Those that hold the embedding's table too, if several do.
  std::vector<std::int64_t> tied_stages() const {
    if (rank_of_unit_.empty() || rank_of_unit_.front() == rank_of_unit_.back()) return {};
    const auto [low, high] = std::minmax(rank_of_unit_.front(), rank_of_unit_.back());
    return {low, high};
  }

  void add_alike(const std::string& name, Alike alike, bool weight_decay, bool is_tied) {
    const Kind& kind = alike.kind;
    Bucket bucket{.name = name,
                  .parameters = std::move(alike.parameters),
                  .weight_decay = weight_decay,
                  .rule = kind.rule,
                  .sign_rate = kind.sign_rate};
    place(bucket, kind.on, is_tied ? tied_stages() : std::vector<std::int64_t>(), layout_, tables_);
    bucket.storage = bucket.gradient = storage_dtype(layout_.precision);
    bucket.compute = kind.is_wide ? bucket.storage : compute_dtype(layout_.precision);
    bucket.delayed = spec::entry(layout_.schedule).traits.is_delayed;
    bucket.full_resident = !bucket.delayed && bucket.storage == bucket.compute &&
                           tables_.size_of(bucket.sharded_over) == 1 &&
                           !spec::offloads(layout_, spec::Offload::parameters);
    bucket.state_bytes =
        kind.rule == program::UpdateRule::sign ? 0 : request_.optimizer.states * bytes_of(bucket.storage);
    // Vectors are few, and steer much: they travel as they are.
    if (weight_decay && kind.rule == program::UpdateRule::optimizer && !kind.is_wide) {
      bucket.reduced_as = wire_of(layout_.compress_gradients);
      bucket.gathered_as = wire_of(layout_.compress_weights);
    }
    bucket.block = layout_.compress_block;
    bucket.rank = layout_.compress_rank;
    lay_out(bucket, slices_along(kind.on.of_experts ? expert_axes(tables_, program::ExpertRole::data)
                                                    : shard_axes(tables_)));
    tables_.buckets.push_back(std::move(bucket));
  }

  const StepRequest& request_;
  const spec::Layout& layout_;
  std::span<const std::uint32_t> rank_of_unit_;
  Tables& tables_;
};

}  // namespace

void add_buckets(const StepRequest& request, std::span<const std::uint32_t> rank_of_unit, Tables& tables) {
  const ModelPlan& model = request.model;
  Buckets buckets(request, rank_of_unit, tables);
  buckets.add("embedding", model.embedding_parameters, true, model.head_reads_embedding);
  for (std::size_t i = 0; i < model.blocks.size(); ++i)
    buckets.add(model.blocks[i].name, model.block_parameters[i], true, false, &model.blocks[i]);
  buckets.add("head", model.head_parameters, true);
  std::vector<PlacedParameters> vectors = model.block_vectors;
  vectors.push_back(model.head_vectors);
  buckets.add_vectors(std::move(vectors));
}

}  // namespace tessera::plan
