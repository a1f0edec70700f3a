#include "tessera/job/rank_describer.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "tessera/base/text.hpp"
#include "tessera/program/diagnose/hang_diagnosis.hpp"
#include "tessera/program/diagnose/op_description.hpp"

namespace tessera::job {

launch::RankDescriber describer_of(std::function<program::Program()> compile) {
  const auto program = std::make_shared<std::optional<program::Program>>();
  const auto compiled = [compile = std::move(compile), program]() -> const program::Program& {
    if (!*program) *program = compile();
    return **program;
  };
  launch::RankDescriber describer;
  describer.doing = [compiled](int rank, const RankState& state, double now) {
    return program::described(compiled(), rank, state, now);
  };
  describer.culprit = [compiled](std::span<const RankState> states, double now) {
    const auto verdict = program::find_culprit(compiled(), states, now);
    return launch::Culprit{verdict.rank, verdict.sentence};
  };
  return describer;
}

launch::RankDescriber describer_of_replicas(const spec::Layout& layout,
                                            std::function<program::Program()> compile) {
  const launch::RankDescriber within = describer_of(std::move(compile));
  launch::RankDescriber describer;
  describer.doing = [=](int rank, const RankState& state, double now) {
    const auto ranks = layout.ranks_of_replica(layout.replica_of(rank));
    return within.doing(static_cast<int>(std::ranges::find(ranks, rank) - ranks.begin()), state, now);
  };
  // Those at whose meeting the others wait come first: whoever is at a meeting waits for them.
  describer.culprit = [=](std::span<const RankState> states, double now) {
    const auto waits_or_is_through = [](const RankState& state) {
      const Activity* at = state.now();
      return state.is_finished() || (at && at->doing == Doing::meeting && at->under_way());
    };
    for (int replica = 0; replica < layout.dp_replicate; ++replica) {
      const auto ranks = layout.ranks_of_replica(replica);
      std::vector<RankState> own;
      std::vector<std::string> names;
      for (const int rank : ranks) {
        own.push_back(states[static_cast<std::size_t>(rank)]);
        names.push_back(cat(rank));
      }
      if (std::ranges::all_of(own, waits_or_is_through)) continue;
      const launch::Culprit found = within.culprit(own, now);
      const auto place = static_cast<std::size_t>(std::max(found.rank, 0));
      return launch::Culprit{ranks[place], cat("the other replicas wait for replica ", replica, " (ranks ",
                                               join(names, ", "), "); in it ", found.sentence)};
    }
    return launch::Culprit{-1, "no replica waits for another"};
  };
  return describer;
}

}  // namespace tessera::job
