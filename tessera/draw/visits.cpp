#include "tessera/draw/visits.hpp"

#include <algorithm>

namespace tessera::draw {
namespace {

using Runs = std::vector<std::vector<std::uint32_t>>;

Runs runs_of(const std::set<std::uint32_t>& segments) {
  Runs out;
  for (const std::uint32_t segment : segments) {
    if (out.empty() || out.back().back() + 1 != segment) out.emplace_back();
    out.back().push_back(segment);
  }
  return out;
}

void cut_longest(Runs& runs) {
  const auto longest =
      std::ranges::max_element(runs, [](const auto& a, const auto& b) { return a.size() < b.size(); });
  const auto middle = longest->begin() + static_cast<std::ptrdiff_t>(longest->size() / 2);
  std::vector<std::uint32_t> upper(middle, longest->end());
  longest->erase(middle, longest->end());
  runs.insert(longest + 1, std::move(upper));
}

}  // namespace

std::vector<std::map<std::uint32_t, std::uint32_t>> visits(
    const std::vector<std::set<std::uint32_t>>& segments_of_rank) {
  std::vector<Runs> ranks;
  std::size_t most = 0;
  for (const auto& segments : segments_of_rank) {
    ranks.push_back(runs_of(segments));
    most = std::max(most, ranks.back().size());
  }
  std::vector<std::map<std::uint32_t, std::uint32_t>> out(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    Runs& runs = ranks[rank];
    if (runs.size() + 1 == most && segments_of_rank[rank].size() >= most) cut_longest(runs);
    for (std::uint32_t visit = 0; visit < runs.size(); ++visit)
      for (const std::uint32_t segment : runs[visit]) out[rank][segment] = visit;
  }
  return out;
}

}  // namespace tessera::draw
