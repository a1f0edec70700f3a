#include <optional>
#include <utility>

#include "tessera/program/ir/touches.hpp"
#include "tessera/program/ir/waits.hpp"
#include "tessera/program/schedule/dice.hpp"
#include "tessera/program/testing/mutate.hpp"

namespace tessera::program {
namespace {

// For each op, the ops that must follow it: every hazard, since lanes may change their order too.
std::vector<std::vector<std::uint32_t>> followers(const Program& program, const Sequence& sequence) {
  const Touches touches(sequence, program.tables);
  std::vector<std::vector<std::uint32_t>> out(sequence.ops.size()), readers(touches.num_cells());
  std::vector<std::optional<std::uint32_t>> writer(touches.num_cells());
  std::optional<std::uint32_t> last_meeting;
  for (std::uint32_t at = 0; at < sequence.ops.size(); ++at) {
    const auto follow = [&](std::optional<std::uint32_t> before) {
      if (before && *before != at) out[*before].push_back(at);
    };
    for (const Touch& touch : touches.of(at)) {
      const std::uint32_t cell = touches.number(touch, sequence.ops[at]);
      follow(writer[cell]);
      if (touch.how == How::reads) {
        readers[cell].push_back(at);
        continue;
      }
      for (const std::uint32_t reader : readers[cell]) follow(reader);
      readers[cell].clear();
      writer[cell] = at;
    }
    // Equal ranks reorder alike; ranks of several classes keep the order in which they meet.
    if (program.classes.size() > 1 && sequence.ops[at].along >= 0) {
      follow(last_meeting);
      last_meeting = at;
    }
  }
  return out;
}

}  // namespace

Program legal_reordering(const Program& program, std::uint64_t seed) {
  Program out = program;
  Dice dice(seed, "legal reordering");
  for (std::size_t c = 0; c < program.classes.size(); ++c) {
    const Sequence& sequence = program.classes[c];
    const auto next = followers(program, sequence);
    std::vector<std::uint32_t> missing(sequence.ops.size(), 0), ready;
    for (const auto& list : next)
      for (const std::uint32_t at : list) ++missing[at];
    for (std::uint32_t at = 0; at < missing.size(); ++at)
      if (missing[at] == 0) ready.push_back(at);
    out.classes[c].ops.clear();
    while (!ready.empty()) {
      std::swap(ready[dice.below(ready.size())], ready.back());
      const std::uint32_t at = ready.back();
      ready.pop_back();
      out.classes[c].ops.push_back(sequence.ops[at]);
      for (const std::uint32_t follower : next[at])
        if (--missing[follower] == 0) ready.push_back(follower);
    }
    build_waits(out.classes[c], out.tables);
  }
  return out;
}

}  // namespace tessera::program
