#include "tessera/plan/describe.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "tessera/base/error.hpp"
#include "tessera/families/families.hpp"
#include "tessera/plan/model/pieces.hpp"
#include "tessera/plan/stages/segments.hpp"

namespace tessera::plan {
namespace {

using program::Bucket;
using program::Placement;
using program::Tables;

using Axes = std::vector<std::int16_t>;

// The axes of a layout, outermost first: the one list of them.
std::vector<program::Axis> axes_of(const spec::Run& run) {
  using enum program::AxisRole;
  const spec::Layout& layout = run.layout;
  return {{"pp", layout.pp, stages},
          {"dp_replicate", layout.dp_replicate, samples},
          {"dp_shard", layout.dp_shard, samples, /*shards=*/true},
          {"cp_ring", layout.cp_ring(), positions, /*shards=*/true},
          {"cp_heads", layout.cp_heads, positions, /*shards=*/true},
          {"tp_kv", run.tp_kv(), channels},
          {"tp_rep", run.tp_rep(), channels}};
}

template <program::AxisRole role>
Axes with_role(const Tables& tables) {
  return tables.axes_that([](const program::Axis& axis) { return axis.role == role; });
}
Axes stage_axes(const Tables& tables) { return with_role<program::AxisRole::stages>(tables); }
Axes channel_axes(const Tables& tables) { return with_role<program::AxisRole::channels>(tables); }
Axes shard_axes(const Tables& tables) {
  return tables.axes_that([](const program::Axis& axis) { return axis.shards; });
}
bool has_own_tokens(const program::Axis& axis) {
  return axis.role == program::AxisRole::samples || axis.role == program::AxisRole::positions;
}
// Where samples and tokens differ: gradients are partial over them.
Axes data_axes(const Tables& tables) { return tables.axes_that(has_own_tokens); }
Axes replica_axes(const Tables& tables) {
  return tables.axes_that([](const program::Axis& axis) { return has_own_tokens(axis) && !axis.shards; });
}
Axes axes_called(const Tables& tables, std::string_view name) {
  const auto found = std::ranges::find(tables.axes, name, &program::Axis::name);
  TESSERA_CHECK(found != tables.axes.end(), "no axis is called ", name);
  return {static_cast<std::int16_t>(found - tables.axes.begin())};
}

std::int64_t ranks_along(const Axes& axes, const Tables& tables) {
  std::int64_t ranks = 1;
  for (const std::int16_t axis : axes) ranks *= tables.axes[static_cast<std::size_t>(axis)].size;
  return ranks;
}

// One set, and so one channel, per name.
std::int16_t set_of(program::AxisSet set, Tables& tables) {
  if (const std::int16_t found = tables.set_called(set.name); found >= 0) return found;
  const auto index = static_cast<std::int16_t>(tables.axis_sets.size());
  tables.axis_sets.push_back(std::move(set));
  tables.groups.push_back(index);
  return index;
}

// See InnerSets.
void add_inner_sets(const spec::Layout& layout, Tables& tables) {
  const InnerSets expected(layout);
  const auto add = [&](std::int16_t index, program::AxisSet set) {
    if (index >= 0) TESSERA_CHECK(set_of(std::move(set), tables) == index, "sets of pieces come first");
  };
  add(expected.data, {"dp", data_axes(tables)});
  add(expected.tp, {"tp", channel_axes(tables)});
  add(expected.cp_ring, {"cp_ring", axes_called(tables, "cp_ring")});
  add(expected.cp_heads, {"cp_heads", axes_called(tables, "cp_heads")});
  add(expected.tp_exchanges, {"tp.exchanges", channel_axes(tables)});
}

void append(Axes& axes, const Axes& more) { axes.insert(axes.end(), more.begin(), more.end()); }

// The names of the model's losses, each once, in the order of its units.
std::vector<std::string> losses_of(const Blueprint& model) {
  std::vector<std::string> out;
  const auto add = [&](const program::Unit& unit) {
    for (const program::Piece& piece : unit.pieces)
      for (const std::string& loss : piece.losses)
        if (std::ranges::count(out, loss) == 0) out.push_back(loss);
  };
  add(model.embedding);
  std::ranges::for_each(model.blocks, add);
  add(model.head);
  return out;
}

void add_mesh(const spec::Run& run, bool is_pipeline, const std::vector<std::string>& losses,
              Tables& tables) {
  const spec::Layout& layout = run.layout;
  tables.axes = axes_of(run);
  add_inner_sets(layout, tables);
  Axes parts = data_axes(tables);
  tables.numbers = {{"tokens", program::Role::tokens, parts}};
  if (is_pipeline) {
    const Axes stages = stage_axes(tables);
    tables.stage_axis = stages.front();
    tables.values_over = set_of({"pp", stages}, tables);
    tables.gradients_over = set_of({"pp.gradients", stages}, tables);
    parts.insert(parts.begin(), stages.begin(), stages.end());
  }
  for (const std::string& loss : losses) tables.numbers.push_back({loss, program::Role::loss, parts});
  if (layout.tp > 1) append(parts, channel_axes(tables));
  tables.numbers.push_back({"norm", program::Role::norm, parts});
  tables.numbers.push_back({"finite", program::Role::finite, parts});
  tables.class_of_rank.assign(static_cast<std::size_t>(layout.ranks()), 0);
}

// On the two axes of tp.
struct OnTp {
  Placement kv, rep;
  auto operator<=>(const OnTp&) const = default;
};
constexpr OnTp kInvariant{Placement::invariant, Placement::invariant},
    kReplicated{Placement::replicated, Placement::replicated}, kCut{Placement::sharded, Placement::sharded},
    kWithKeys{Placement::sharded, Placement::replicated};

OnTp on_tp(TensorPlacement placement, const spec::Run& run) {
  if (run.layout.tp == 1) return kInvariant;
  switch (placement) {
    case TensorPlacement::by_stream:
      return run.layout.sequence_parallel ? kReplicated : kInvariant;
    case TensorPlacement::by_heads:
      return kReplicated;
    case TensorPlacement::cut:
      return kCut;
    case TensorPlacement::with_keys:
      return run.tp_rep() > 1 ? kWithKeys : kCut;
  }
  throw Bug("a parameter that lies in no known way");
}

// The axes of tp over which its gradient is partial, and what a set with them is called.
struct Partial {
  Axes axes;
  std::string name;
};
Partial partial_over(const OnTp& on, const Tables& tables) {
  if (on == kReplicated) return {channel_axes(tables), "tp"};
  if (on == kWithKeys) return {axes_called(tables, "tp_rep"), "tp_rep"};
  return {};
}

// Where a bucket is summed, and cut. With zero 1 and up the ranks along the axes that shard hold a part each;
// replicas of a part are summed last. `stages`: the two that share it, if any do.
void place(Bucket& bucket, const OnTp& on, const std::vector<std::int64_t>& stages,
           const spec::Layout& layout, Tables& tables) {
  bucket.placement.clear();
  const auto lie = [&](const Axes& axes, Placement placement) {
    for (const std::int16_t axis : axes) bucket.placement.push_back({axis, placement});
  };
  if (!stages.empty()) lie(stage_axes(tables), Placement::replicated);
  lie(data_axes(tables), Placement::replicated);
  lie(axes_called(tables, "tp_kv"), on.kv);
  lie(axes_called(tables, "tp_rep"), on.rep);
  if (on == kCut) bucket.cut_over = set_of({"tp", channel_axes(tables)}, tables);
  if (on == kWithKeys) bucket.cut_over = set_of({"tp_kv", axes_called(tables, "tp_kv")}, tables);

  const Partial partial = partial_over(on, tables);
  const auto channel = [&](const std::string& name, Axes axes) {
    append(axes, partial.axes);
    if (!stages.empty()) axes.insert(axes.begin(), tables.stage_axis);
    const std::string base = stages.empty() ? name : "tied";
    return set_of({base + (partial.axes.empty() ? "" : "+" + partial.name), axes, stages}, tables);
  };
  if (layout.zero == 0) {
    bucket.reduced_over = channel("dp", data_axes(tables));
    return;
  }
  bucket.sharded_over = set_of({"shard", shard_axes(tables)}, tables);
  bucket.reduced_over = set_of({"shard.gradients", shard_axes(tables)}, tables);
  if (ranks_along(replica_axes(tables), tables) > 1 || !partial.axes.empty() || !stages.empty())
    bucket.shared_over = channel("replicas", replica_axes(tables));
}

std::int64_t state_bytes(const spec::Training& training, std::int64_t storage_bytes) {
  switch (training.optimizer) {
    case spec::Optimizer::adamw:
      return 2 * storage_bytes;
    case spec::Optimizer::sgd:
      break;
  }
  return training.momentum > 0 ? storage_bytes : 0;
}

class Buckets {
 public:
  Buckets(const spec::Run& run, std::span<const std::uint32_t> rank_of_unit, Tables& tables)
      : run_(run), rank_of_unit_(rank_of_unit), tables_(tables) {}

  // Parameters that lie alike share a bucket; the first takes the name as it is. `tied` is read by the first
  // stage and by the last.
  void add(const std::string& name, PlacedParameters parameters, bool weight_decay, bool is_tied = false) {
    std::vector<std::pair<OnTp, std::vector<program::Parameter>>> by_placement;
    for (auto& [parameter, placement] : parameters) {
      const OnTp on = on_tp(placement, run_);
      auto found = std::ranges::find(by_placement, on, [](const auto& entry) { return entry.first; });
      if (found == by_placement.end()) found = by_placement.insert(found, {on, {}});
      found->second.push_back(part_of(std::move(parameter), on));
    }
    for (std::size_t i = 0; i < by_placement.size(); ++i)
      add_alike(i == 0 ? name : name + suffix(by_placement[i].first), std::move(by_placement[i]),
                weight_decay, is_tied && i == 0);
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
  static std::string suffix(const OnTp& on) {
    return on == kCut ? ".cut" : on == kWithKeys ? ".keys" : ".whole";
  }

  program::Parameter part_of(program::Parameter parameter, const OnTp& on) const {
    const std::int64_t parts = on == kCut ? run_.layout.tp : on == kWithKeys ? run_.tp_kv() : 1;
    if (parts == 1)
      parameter.cut_dim = -1;
    else
      parameter.shape.at(static_cast<std::size_t>(parameter.cut_dim)) /= parts;
    return parameter;
  }

  // Those that hold the embedding's table too, if several do.
  std::vector<std::int64_t> tied_stages() const {
    if (rank_of_unit_.empty() || rank_of_unit_.front() == rank_of_unit_.back()) return {};
    const auto [low, high] = std::minmax(rank_of_unit_.front(), rank_of_unit_.back());
    return {low, high};
  }

  void add_alike(const std::string& name, std::pair<OnTp, std::vector<program::Parameter>> alike,
                 bool weight_decay, bool is_tied) {
    const spec::Layout& layout = run_.layout;
    Bucket bucket{.name = name, .parameters = std::move(alike.second), .weight_decay = weight_decay};
    place(bucket, alike.first, is_tied ? tied_stages() : std::vector<std::int64_t>(), layout, tables_);
    bucket.storage = bucket.gradient = storage_dtype(layout.precision);
    bucket.compute = compute_dtype(layout.precision);
    bucket.delayed = spec::entry(layout.schedule).traits.is_delayed;
    bucket.full_resident = !bucket.delayed && bucket.storage == bucket.compute &&
                           tables_.size_of(bucket.sharded_over) == 1 &&
                           !spec::offloads(layout, spec::Offload::parameters);
    bucket.state_bytes = state_bytes(run_.training, bytes_of(bucket.storage));
    lay_out(bucket, ranks_along(shard_axes(tables_), tables_));
    tables_.buckets.push_back(std::move(bucket));
  }

  const spec::Run& run_;
  std::span<const std::uint32_t> rank_of_unit_;
  Tables& tables_;
};

}  // namespace

Tables describe(const spec::Run& run) {
  const Blueprint model = families::blueprint(run);
  return describe(run, model, {}, cuts(run.layout, model.blocks));
}

Tables describe(const spec::Run& run, Blueprint parts, std::span<const std::uint32_t> rank_of_unit,
                const Cuts& cuts) {
  const spec::Layout& layout = run.layout;
  TESSERA_CHECK(layout.ep == 1, "experts are not described");
  Tables tables;
  add_mesh(run, !rank_of_unit.empty(), losses_of(parts), tables);
  const std::int64_t num_micro = run.num_micro_batches();
  TESSERA_CHECK(num_micro > 0 && num_micro <= std::numeric_limits<std::int32_t>::max(), num_micro,
                " micro-batches");
  tables.num_micro = static_cast<std::int32_t>(num_micro);
  Buckets buckets(run, rank_of_unit, tables);
  buckets.add("embedding", std::move(parts.embedding_parameters), true, parts.head_parameters.empty());
  for (std::size_t i = 0; i < parts.blocks.size(); ++i)
    buckets.add(parts.blocks[i].name, std::move(parts.block_parameters[i]), true);
  buckets.add("head", std::move(parts.head_parameters), true);
  parts.block_vectors.push_back(std::move(parts.head_vectors));
  buckets.add_vectors(std::move(parts.block_vectors));

  SegmentTable segments(layout.micro_batch * run.model.sequence / layout.cp, compute_dtype(layout.precision),
                        tables);
  const Cut whole_embedding = uncut(parts.embedding), whole_head = uncut(parts.head);
  segments.add(std::move(parts.embedding), whole_embedding);
  for (std::size_t i = 0; i < parts.blocks.size(); ++i) segments.add(std::move(parts.blocks[i]), cuts.at(i));
  segments.add(std::move(parts.head), whole_head);
  assign_ends(tables);
  return tables;
}

std::int64_t num_parameters(const Tables& tables) {
  std::int64_t total = 0;
  for (const Bucket& bucket : tables.buckets)
    for (const program::Parameter& parameter : bucket.parameters)
      total += num_elements(parameter.whole_shape(tables.size_of(bucket.cut_over)));
  return total;
}

}  // namespace tessera::plan
