#include "tessera/plan/memory/fill_blocks.hpp"

#include <algorithm>
#include <limits>

namespace tessera::plan {
namespace {

constexpr std::size_t kMostStates = 128;  // of a block; more are thinned out
constexpr int kTotals = 16;               // guesses of what all blocks hold for one micro-batch

struct State {
  double kept = 0, seconds = 0;
  std::size_t before = 0, option = 0;  // the state it came from, and what the block took
};

// Those that no other beats in bytes and seconds, by bytes; of neighbours too close to tell apart the cheaper
// one.
std::vector<State> pruned(std::vector<State> states) {
  std::ranges::sort(states, [](const State& a, const State& b) {
    return a.kept != b.kept ? a.kept < b.kept : a.seconds < b.seconds;
  });
  std::vector<State> out;
  for (const State& state : states)
    if (out.empty() || state.seconds < out.back().seconds) out.push_back(state);
  if (out.size() <= kMostStates) return out;
  const double width = (out.back().kept - out.front().kept) / static_cast<double>(kMostStates);
  std::vector<State> thin;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto slot = [&](const State& state) { return (state.kept - out.front().kept) / width; };
    const bool is_last = i + 1 == out.size();
    if (is_last || static_cast<int>(slot(out[i])) != static_cast<int>(slot(out[i + 1])))
      thin.push_back(out[i]);
  }
  return thin;
}

struct Filled {
  double seconds = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> options;
};

// total: what all blocks may keep for a micro-batch; room: what there is beside the other micro-batches.
Filled fill(const BlocksToFill& blocks, double total, double room) {
  std::vector<std::vector<State>> by_block = {{State{}}};
  for (std::size_t block = 0; block < blocks.num_blocks; ++block) {
    std::vector<State> next;
    const auto& states = by_block.back();
    for (std::size_t s = 0; s < states.size(); ++s)
      for (std::size_t o = 0; o < blocks.options.size(); ++o) {
        const Option& option = blocks.options[o];
        const double kept = states[s].kept + static_cast<double>(option.kept_bytes);
        if (kept > total || states[s].kept + static_cast<double>(option.during_bytes) > room) continue;
        next.push_back({kept, states[s].seconds + option.seconds, s, o});
      }
    if (next.empty()) return {};
    by_block.push_back(pruned(std::move(next)));
  }
  // The last has least seconds: more bytes buy fewer of them.
  std::size_t at = by_block.back().size() - 1;
  Filled out{by_block.back()[at].seconds, std::vector<std::size_t>(blocks.num_blocks)};
  for (std::size_t block = blocks.num_blocks; block-- > 0;) {
    const State& state = by_block[block + 1][at];
    out.options[block] = state.option;
    at = state.before;
  }
  return out;
}

}  // namespace

std::optional<std::vector<std::size_t>> fill_blocks(const BlocksToFill& blocks) {
  const double others = blocks.in_flight - 1;
  Filled best;
  if (others <= 0) best = fill(blocks, blocks.bytes, blocks.bytes);
  for (int i = 0; others > 0 && i <= kTotals; ++i) {
    const double total = blocks.bytes / blocks.in_flight * i / kTotals;
    Filled found = fill(blocks, total, blocks.bytes - others * total);
    if (found.seconds < best.seconds) best = std::move(found);
  }
  if (best.seconds == std::numeric_limits<double>::infinity()) return std::nullopt;
  return best.options;
}

}  // namespace tessera::plan
