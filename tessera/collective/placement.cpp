#include "tessera/collective/placement.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera::collective {
namespace {

template <typename Placements>
auto find_axis(Placements& placements, const std::string& axis) {
  return std::ranges::find(placements, axis,
                           [](const auto& entry) -> const std::string& { return entry.first; });
}

}  // namespace

std::string to_text(const Placement& placement) {
  switch (placement.kind) {
    case Placement::Kind::replicated:
      return "R";
    case Placement::Kind::invariant:
      return "I";
    case Placement::Kind::varying:
      return placement.dim < 0 ? "V" : cat("S(", placement.dim, ")");
    case Placement::Kind::partial:
      return "P";
  }
  throw_bug(__FILE__, __LINE__, "a known placement", "");
}

const Placement& Placed::on(const std::string& axis) const {
  const auto found = find_axis(placements, axis);
  if (found == placements.end())
    throw UserError(cat("tensor ", placements_text(*this), " has no placement on axis ", axis));
  return found->second;
}

std::string placements_text(const Placed& x) {
  std::vector<std::string> parts;
  for (const auto& [axis, placement] : x.placements) parts.push_back(cat(to_text(placement), " on ", axis));
  return cat(x.name, ": ", parts.empty() ? "on no axis" : join(parts, ", "));
}

Placed placed_as(const Placed& x, const std::string& axis, const Placement& placement, at::Tensor tensor) {
  Placed out{std::move(tensor), x.name, x.placements};
  const auto found = find_axis(out.placements, axis);
  if (placement.dim >= 0 && found->second != placement) {
    out.placements.erase(found);
    out.placements.emplace_back(axis, placement);
  } else {
    found->second = placement;
  }
  return out;
}

void check_innermost(const Placed& x, const std::string& axis, const char* operation) {
  const int dim = x.on(axis).dim;
  for (auto later = find_axis(x.placements, axis) + 1; later != x.placements.end(); ++later)
    if (later->second == sharded(dim))
      throw UserError(cat(operation, " on axis ", axis, ": dim ", dim, " of ", placements_text(x),
                          " is cut over ", later->first, " inside ", axis, ". Treat ", later->first,
                          " first."));
}

}  // namespace tessera::collective
