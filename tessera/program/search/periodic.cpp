#include "tessera/program/search/periodic.hpp"

#include <algorithm>

namespace tessera::program {
namespace {

struct Times {
  std::vector<double> forward, input;  // by stage: when the first micro-batch comes by
};

Times times_of(const Costs& costs, const std::vector<std::uint32_t>& rank_of_stage, const Rhythm& rhythm) {
  const std::size_t num_stages = rank_of_stage.size();
  const auto hop = [&](std::size_t a, std::size_t b) {
    return rank_of_stage[a] == rank_of_stage[b] ? 0 : costs.transfer;
  };
  Times out{std::vector<double>(num_stages, 0), std::vector<double>(num_stages, 0)};
  for (std::size_t s = 1; s < num_stages; ++s)
    out.forward[s] = out.forward[s - 1] + rhythm.forward * costs.stages[s - 1].forward + hop(s - 1, s);
  out.input.back() = out.forward.back() + costs.stages.back().forward;
  for (std::size_t s = num_stages - 1; s-- > 0;)
    out.input[s] = out.input[s + 1] + rhythm.input * costs.stages[s + 1].input + hop(s, s + 1);
  return out;
}

double busiest_rank(const Pipeline& pipeline, const std::vector<std::uint32_t>& rank_of_stage) {
  std::vector<double> work(pipeline.num_ranks, 0);
  for (std::size_t s = 0; s < rank_of_stage.size(); ++s) {
    const StageCost& cost = pipeline.costs.stages[s];
    work[rank_of_stage[s]] += cost.forward + cost.input + cost.weight;
  }
  return std::ranges::max(work);
}

}  // namespace

Order periodic(const Pipeline& pipeline, const std::vector<std::uint32_t>& rank_of_stage,
               const Rhythm& rhythm) {
  struct Timed {
    double time;
    Task task;
  };
  const Times times = times_of(pipeline.costs, rank_of_stage, rhythm);
  const double beat = rhythm.beat * busiest_rank(pipeline, rank_of_stage);
  std::vector<std::vector<Timed>> ranks(pipeline.num_ranks);
  for (std::uint32_t stage = 0; stage < rank_of_stage.size(); ++stage)
    for (std::int32_t micro = 0; micro < pipeline.num_micro; ++micro) {
      auto& rank = ranks[rank_of_stage[stage]];
      rank.push_back({micro * beat + times.forward[stage], {OpKind::forward, stage, micro}});
      rank.push_back({micro * beat + times.input[stage], {OpKind::backward_input, stage, micro}});
    }
  Order out{pipeline.num_micro, rank_of_stage, std::vector<std::vector<Task>>(pipeline.num_ranks)};
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::ranges::stable_sort(ranks[rank], {}, &Timed::time);
    for (const Timed& timed : ranks[rank]) out.ranks[rank].push_back(timed.task);
  }
  return out;
}

}  // namespace tessera::program
