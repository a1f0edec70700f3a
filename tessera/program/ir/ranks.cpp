#include "tessera/program/ir/ranks.hpp"

#include <algorithm>

namespace tessera::program {

mesh::Mesh mesh_of(const Tables& tables) {
  std::vector<mesh::Axis> axes;
  for (const Axis& axis : tables.axes) axes.emplace_back(axis.name, axis.size);
  return mesh::Mesh(std::move(axes));
}

std::vector<mesh::AxisSet> sets_of(const Tables& tables) {
  const mesh::Mesh mesh = mesh_of(tables);
  std::vector<mesh::AxisSet> out;
  for (const AxisSet& set : tables.axis_sets) {
    std::vector<std::string> names;
    for (const std::int16_t axis : set.axes) names.push_back(tables.axes[axis].name);
    const mesh::AxisSet whole = mesh.along(std::span<const std::string>(names));
    out.push_back(set.only.empty() ? whole : whole.only(set.only));
  }
  return out;
}

std::vector<mesh::Rank> first_ranks(const Program& program) {
  const auto& class_of_rank = program.tables.class_of_rank;
  std::vector<mesh::Rank> out(program.classes.size(), -1);
  for (std::size_t rank = class_of_rank.size(); rank-- > 0;)
    out[class_of_rank[rank]] = static_cast<mesh::Rank>(rank);
  return out;
}

namespace {

// Of the coordinates on an axis, those on which the bucket lies; empty: all.
const std::vector<std::int64_t>& holders_on(std::int16_t axis, const Bucket& bucket, const Tables& tables) {
  static const std::vector<std::int64_t> kAll;
  for (const std::int16_t set : {bucket.reduced_over, bucket.shared_over})
    if (set >= 0 && tables.axis_sets[set].axes.front() == axis && !tables.axis_sets[set].only.empty())
      return tables.axis_sets[set].only;
  return kAll;
}

}  // namespace

Slice replica_of(const Bucket& bucket, const Tables& tables, mesh::Rank rank,
                 std::span<const std::int16_t> without) {
  const auto coordinates = mesh_of(tables).coordinates(rank);
  Slice out;
  for (const auto& [axis, placement] : bucket.placement) {
    if (placement == Placement::sharded || std::ranges::find(without, axis) != without.end()) continue;
    const auto& holders = holders_on(axis, bucket, tables);
    const std::int64_t coordinate = coordinates[static_cast<std::size_t>(axis)];
    const auto size = holders.empty() ? tables.axes[axis].size : std::ssize(holders);
    const auto place =
        holders.empty() ? coordinate : std::ranges::find(holders, coordinate) - holders.begin();
    out = {out.position * size + place, out.count * size};
  }
  return out;
}

bool is_server(const Tables& tables, mesh::Rank rank) {
  if (!tables.has_servers()) return false;
  const auto coordinates = mesh_of(tables).coordinates(rank);
  for (std::size_t axis = 0; axis < tables.axes.size(); ++axis)
    if (coordinates[axis] >= tables.axes[axis].size - tables.axes[axis].servers) return true;
  return false;
}

std::optional<Slice> slice_held(const Bucket& bucket, const Tables& tables, mesh::Rank rank) {
  if (bucket.sharded_over < 0) return Slice();
  const bool is_served = tables.is_served(bucket);
  if (is_served && !is_server(tables, rank)) return std::nullopt;
  const auto coordinates = mesh_of(tables).coordinates(rank);
  Slice out;
  for (const std::int16_t index : tables.axis_sets[static_cast<std::size_t>(bucket.sharded_over)].axes) {
    const Axis& axis = tables.axes[static_cast<std::size_t>(index)];
    const std::int64_t place = coordinates[static_cast<std::size_t>(index)];
    out = axis.servers > 0 ? Slice{out.position * axis.servers + place - (axis.size - axis.servers),
                                   out.count * axis.servers}
                           : Slice{out.position * axis.size + place, out.count * axis.size};
  }
  return out;
}

bool is_group_op(const Op& op) {
  return op.along >= 0 && (op.what == OpKind::gather || op.what == OpKind::reduce || op.what == OpKind::sum ||
                           op.what == OpKind::exchange);
}

}  // namespace tessera::program
