// Which ranks do a program's classes and axis sets stand for?
#pragma once

#include <vector>

#include "tessera/mesh/mesh.hpp"
#include "tessera/program/types.hpp"

namespace tessera::program {

// The mesh of the tables' axes.
mesh::Mesh mesh_of(const Tables& tables);

// The tables' axis sets on that mesh.
std::vector<mesh::AxisSet> sets_of(const Tables& tables);

// Per class its lowest rank: it stands for the class. Every class has a rank.
std::vector<mesh::Rank> first_ranks(const Program& program);

// Whether all members of a group over Op::along run it together.
bool is_group_op(const Op& op);

}  // namespace tessera::program
