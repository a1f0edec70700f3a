// The axes of a run's mesh, and the sets of them along which ranks meet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/plan/model/pieces.hpp"
#include "tessera/program/ir/tables.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

using Axes = std::vector<std::int16_t>;  // indices into Tables::axes, outermost first

// Outermost first, with those cut into factors that experts fold.
// key_ranks: see ModelPlan.
std::vector<program::Axis> axes_of(const spec::Layout& layout, std::int64_t key_ranks);

Axes stage_axes(const program::Tables& tables);
Axes channel_axes(const program::Tables& tables);
Axes shard_axes(const program::Tables& tables);
// Where samples and tokens differ: gradients are partial over them.
Axes data_axes(const program::Tables& tables);
// Of these, those that ZeRO does not cut buckets along.
Axes replica_axes(const program::Tables& tables);
// With the factors of one that is folded.
Axes axes_called(const program::Tables& tables, const std::string& name);
Axes axes_called(const program::Tables& tables, const std::vector<std::string>& names);
// What experts see of the axes that fold.
Axes expert_axes(const program::Tables& tables, program::ExpertRole role);
// The axes of tp whose ranks have a part of the sum of a loss each: other experts, or other tokens where the
// head has its values.
Axes loss_axes(const spec::Layout& layout, const program::Tables& tables);

std::int64_t ranks_along(const Axes& axes, const program::Tables& tables);
void append(Axes& axes, const Axes& more);

// Adds the sets that the pieces of a model communicate over.
void add_inner_sets(const InnerSets& expected, const spec::Layout& layout, program::Tables& tables);

}  // namespace tessera::plan
