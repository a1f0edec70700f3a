#include "tessera/program/schedule/balance_stages.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "tessera/base/error.hpp"

namespace tessera::program {
namespace {

using Counts = std::vector<std::uint32_t>;

// Sums of the first n units.
std::vector<double> sums_of(std::span<const double> unit_seconds) {
  std::vector<double> out = {0};
  for (const double seconds : unit_seconds) out.push_back(out.back() + seconds);
  return out;
}

// The least largest stage; of several, the one with the least sum of squares of the stages' seconds.
Counts even_stages(std::span<const double> sums, std::size_t num_stages) {
  struct Best {
    double largest = std::numeric_limits<double>::infinity(), squares = 0;
    std::size_t begin = 0;  // of the last stage
  };
  const std::size_t num_units = sums.size() - 1;
  std::vector<std::vector<Best>> best(num_stages + 1, std::vector<Best>(num_units + 1));
  best[0][0].largest = 0;
  for (std::size_t stage = 1; stage <= num_stages; ++stage)
    for (std::size_t end = stage; end <= num_units; ++end)
      for (std::size_t begin = end; begin-- > stage - 1;) {
        const double seconds = sums[end] - sums[begin];
        if (seconds > best[stage][end].largest) break;  // longer stages only get worse
        const Best& before = best[stage - 1][begin];
        const Best found{std::max(before.largest, seconds), before.squares + seconds * seconds, begin};
        if (std::tie(found.largest, found.squares) <
            std::tie(best[stage][end].largest, best[stage][end].squares))
          best[stage][end] = found;
      }
  Counts out(num_stages);
  for (std::size_t stage = num_stages, end = num_units; stage > 0; --stage) {
    out[stage - 1] = static_cast<std::uint32_t>(end - best[stage][end].begin);
    end = best[stage][end].begin;
  }
  return out;
}

// Most loaded rank, largest stage, and how uneven ranks and stages are.
std::tuple<double, double, double> badness(std::span<const double> sums, const Counts& counts,
                                           std::span<const std::uint32_t> rank_of_stage) {
  std::vector<double> ranks(std::ranges::max(rank_of_stage) + 1, 0);
  double largest = 0, squares = 0;
  std::size_t begin = 0;
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    const double seconds = sums[begin + counts[stage]] - sums[begin];
    ranks[rank_of_stage[stage]] += seconds;
    largest = std::max(largest, seconds);
    squares += seconds * seconds;
    begin += counts[stage];
  }
  for (const double seconds : ranks) squares += seconds * seconds;
  return {std::ranges::max(ranks), largest, squares};
}

}  // namespace

std::vector<std::uint32_t> balance_stages(std::span<const double> unit_seconds,
                                          std::span<const std::uint32_t> rank_of_stage) {
  const std::size_t num_stages = rank_of_stage.size();
  if (unit_seconds.size() < num_stages)
    throw UserError(cat(unit_seconds.size(), " units (embedding, blocks, head) can't fill ", num_stages,
                        " stages: take fewer pipeline ranks or virtual stages, or more layers"));
  const std::vector<double> sums = sums_of(unit_seconds);
  Counts counts = even_stages(sums, num_stages);
  // Even stages need not make even ranks: hand single units from one stage to another while that helps.
  auto best = badness(sums, counts, rank_of_stage);
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (std::size_t from = 0; from < num_stages; ++from)
      for (std::size_t to = 0; to < num_stages; ++to) {
        if (from == to || counts[from] == 1) continue;
        --counts[from];
        ++counts[to];
        if (const auto found = badness(sums, counts, rank_of_stage); found < best) {
          best = found;
          has_changed = true;
        } else {
          ++counts[from];
          --counts[to];
        }
      }
  }
  return counts;
}

}  // namespace tessera::program
