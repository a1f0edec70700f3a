#include "tessera/plan/axes.hpp"

#include <algorithm>
#include <numeric>

#include "tessera/base/error.hpp"

namespace tessera::plan {

using program::Tables;

namespace {

// Note [Fold]
// The ranks that are dp_shard x cp x tp for attention are data x ep x etp for experts. Each of these axes is
// cut into three factors, so that both ways to see a rank are products of the same digits: from the innermost
// axis on, as much of etp as divides it, then as much of ep, and the rest sees other tokens. What ep and etp
// have of each prime is found somewhere whenever their product divides that of the axes.
void add_folded(const program::Axis& axis, std::int64_t& ep, std::int64_t& etp,
                std::vector<program::Axis>& innermost_first) {
  using enum program::ExpertRole;
  const std::int64_t of_etp = std::gcd(axis.size, etp), of_ep = std::gcd(axis.size / of_etp, ep);
  etp /= of_etp, ep /= of_ep;
  const std::int64_t rest = axis.size / of_etp / of_ep;
  std::vector<program::Axis> factors;
  const auto add = [&](const char* name, std::int64_t size, program::ExpertRole role) {
    if (size == 1) return;
    factors.push_back(axis);
    factors.back().size = size;
    factors.back().for_experts = role;
    if (size != axis.size) factors.back().name += name;
  };
  add(".etp", of_etp, slices);
  add(".ep", of_ep, experts);
  add(".data", rest, data);
  if (factors.empty()) factors.push_back(axis);
  innermost_first.insert(innermost_first.end(), factors.begin(), factors.end());
}

// The axes as attention sees them, outermost first: the one list of them.
std::vector<program::Axis> unfolded_axes(const spec::Layout& layout, std::int64_t key_ranks) {
  using enum program::AxisRole;
  std::vector<program::Axis> out = {{"pp", layout.pp, stages},
                                    {"dp_replicate", layout.dp_replicate, samples},
                                    {.name = "dp_shard",
                                     .size = layout.dp_shard + layout.servers,
                                     .role = samples,
                                     .shards = true,
                                     .servers = layout.servers},
                                    {"cp_ring", layout.cp_ring(), positions, /*shards=*/true},
                                    {"cp_heads", layout.cp_heads, positions, /*shards=*/true}};
  if (!layout.in_blocks()) {
    out.push_back({"tp_kv", key_ranks, channels});
    out.push_back({"tp_rep", layout.tp_channels() / key_ranks, channels});
    return out;
  }
  const spec::TensorGrid grid = layout.grid();
  out.push_back({"tp_depth", grid.layers, channels});
  out.push_back({"tp_row", grid.rows, channels});
  out.push_back({"tp_col", grid.columns, channels});
  return out;
}

}  // namespace

std::vector<program::Axis> axes_of(const spec::Layout& layout, std::int64_t key_ranks) {
  const auto unfolded = unfolded_axes(layout, key_ranks);
  std::int64_t ep = layout.ep, etp = layout.etp;
  std::vector<program::Axis> out;
  for (std::size_t i = unfolded.size(); i-- > 0;) {
    const bool folds = unfolded[i].shards || unfolded[i].role == program::AxisRole::channels;
    if (folds)
      add_folded(unfolded[i], ep, etp, out);
    else
      out.push_back(unfolded[i]);
  }
  TESSERA_CHECK(ep == 1 && etp == 1, "ep and etp do not divide the ranks that they are taken from");
  std::ranges::reverse(out);
  return out;
}

namespace {
template <program::AxisRole role>
Axes with_role(const Tables& tables) {
  return tables.axes_that([](const program::Axis& axis) { return axis.role == role; });
}
bool has_own_tokens(const program::Axis& axis) {
  return axis.role == program::AxisRole::samples || axis.role == program::AxisRole::positions;
}
}  // namespace

Axes stage_axes(const Tables& tables) { return with_role<program::AxisRole::stages>(tables); }
Axes channel_axes(const Tables& tables) { return with_role<program::AxisRole::channels>(tables); }
Axes shard_axes(const Tables& tables) {
  return tables.axes_that([](const program::Axis& axis) { return axis.shards; });
}
Axes data_axes(const Tables& tables) { return tables.axes_that(has_own_tokens); }
Axes replica_axes(const Tables& tables) {
  return tables.axes_that([](const program::Axis& axis) { return has_own_tokens(axis) && !axis.shards; });
}
Axes axes_called(const Tables& tables, const std::string& name) {
  Axes out;
  for (std::size_t i = 0; i < tables.axes.size(); ++i)
    if (tables.axes[i].name == name || tables.axes[i].name.starts_with(name + "."))
      out.push_back(static_cast<std::int16_t>(i));
  TESSERA_CHECK(!out.empty(), "no axis is called ", name);
  return out;
}

Axes axes_called(const Tables& tables, const std::vector<std::string>& names) {
  Axes out;
  for (const std::string& name : names) append(out, axes_called(tables, name));
  return out;
}

Axes expert_axes(const Tables& tables, program::ExpertRole role) {
  Axes out;
  for (std::size_t i = 0; i < tables.axes.size(); ++i) {
    const program::Axis& axis = tables.axes[i];
    if ((axis.shards || axis.role == program::AxisRole::channels) && axis.for_experts == role)
      out.push_back(static_cast<std::int16_t>(i));
  }
  return out;
}

std::int64_t ranks_along(const Axes& axes, const Tables& tables) {
  std::int64_t ranks = 1;
  for (const std::int16_t axis : axes) ranks *= tables.axes[static_cast<std::size_t>(axis)].size;
  return ranks;
}

void append(Axes& axes, const Axes& more) { axes.insert(axes.end(), more.begin(), more.end()); }

Axes loss_axes(const spec::Layout& layout, const Tables& tables) {
  if (!layout.in_blocks()) return channel_axes(tables);
  Axes out = axes_called(tables, "tp_depth");
  append(out, axes_called(tables, layout.tp_kind == spec::TensorKind::d3 ? "tp_col" : "tp_row"));
  return out;
}

void add_inner_sets(const InnerSets& expected, const spec::Layout& layout, Tables& tables) {
  const auto add = [&](std::int16_t index, program::AxisSet set) {
    if (index >= 0) TESSERA_CHECK(set_of(std::move(set), tables) == index, "sets of pieces come first");
  };
  add(expected.data, {"dp", data_axes(tables)});
  add(expected.numbers, {"tp.numbers", loss_axes(layout, tables)});
  add(expected.tp, {"tp", channel_axes(tables)});
  if (layout.in_blocks()) {
    add(expected.tp_row, {"tp_row", axes_called(tables, "tp_row")});
    add(expected.tp_col, {"tp_col", axes_called(tables, "tp_col")});
    add(expected.tp_depth, {"tp_depth", axes_called(tables, "tp_depth")});
  }
  add(expected.cp_ring, {"cp_ring", axes_called(tables, "cp_ring")});
  add(expected.cp_heads, {"cp_heads", axes_called(tables, "cp_heads")});
  add(expected.tp_exchanges, {"tp.exchanges", channel_axes(tables)});
  Axes experts = expert_axes(tables, program::ExpertRole::experts);
  append(experts, expert_axes(tables, program::ExpertRole::slices));
  add(expected.experts, {"experts", experts});
  add(expected.expert_exchanges, {"experts.exchanges", experts});
  // Ranks that share samples.
  Axes samples = axes_called(tables, "cp_ring");
  append(samples, axes_called(tables, "cp_heads"));
  append(samples, channel_axes(tables));
  add(expected.same_samples, {"cp+tp", samples});
  // Ranks that have the samples of a batch, or parts of them.
  Axes batch = data_axes(tables);
  for (const std::int16_t axis : channel_axes(tables))
    if (std::ranges::count(batch, axis) == 0) batch.push_back(axis);
  add(expected.batch, {"batch", batch});
}

}  // namespace tessera::plan
