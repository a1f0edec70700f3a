// The ranks that a program's classes and axis sets stand for.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tessera/mesh/mesh.hpp"
#include "tessera/program/ir/types.hpp"

namespace tessera::program {

// The mesh of the tables' axes.
mesh::Mesh mesh_of(const Tables& tables);

// The tables' axis sets on that mesh.
std::vector<mesh::AxisSet> sets_of(const Tables& tables);

// Per class its lowest rank: it stands for the class. Every class has a rank.
std::vector<mesh::Rank> first_ranks(const Program& program);

// Of the ranks that hold the same elements of a bucket, which is this one? Along the axes of `without` they
// hold different ones.
Slice replica_of(const Bucket& bucket, const Tables& tables, mesh::Rank rank,
                 std::span<const std::int16_t> without);

// Whether it is a parameter server.
bool is_server(const Tables& tables, mesh::Rank rank);

// What the rank holds of Shard, ShardGrad and State: nothing where servers hold them and it is none.
std::optional<Slice> slice_held(const Bucket& bucket, const Tables& tables, mesh::Rank rank);

// Whether all members of a group over Op::along run it together.
bool is_group_op(const Op& op);

}  // namespace tessera::program
