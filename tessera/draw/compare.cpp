#include "tessera/draw/compare.hpp"

#include <algorithm>
#include <array>

#include "tessera/base/text.hpp"
#include "tessera/program/ir/text.hpp"

namespace tessera::draw {
namespace {

using Kinds = std::array<double, program::kNumOpKinds>;

Kinds by_kind(const Panel& panel) {
  Kinds out = {};
  for (const Lanes& rank : panel.ranks)
    for (const Row& row : rank.rows)
      for (const Bar& bar : row.bars)
        out[static_cast<std::size_t>(bar.what)] +=
            (bar.end - bar.start) * static_cast<double>(rank.num_ranks);
  return out;
}

}  // namespace

Comparison compare(const Panel& predicted, const Panel& measured) {
  Comparison out;
  out.ranks.push_back({"makespan", predicted.makespan, measured.makespan});
  for (const Lanes& rank : predicted.ranks) {
    const auto same = std::ranges::find(measured.ranks, rank.name, &Lanes::name);
    if (same != measured.ranks.end()) out.ranks.push_back({same->name + " busy", rank.busy, same->busy});
  }
  const Kinds a = by_kind(predicted), b = by_kind(measured);
  for (std::size_t kind = 0; kind < a.size(); ++kind)
    if (a[kind] > 0 || b[kind] > 0)
      out.kinds.push_back(
          {std::string(program::name_of(static_cast<program::OpKind>(kind))), a[kind], b[kind]});
  return out;
}

std::string difference_text(const Compared& compared) {
  if (compared.predicted <= 0) return "-";
  const double percent = 100 * (compared.measured / compared.predicted - 1);
  return cat(percent < 0 ? "-" : "+", fixed(std::abs(percent), 1), " %");
}

}  // namespace tessera::draw
