#include "tessera/planner/variants/spread.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "tessera/base/random.hpp"
#include "tessera/base/text.hpp"
#include "tessera/spec/choice_names.hpp"

namespace tessera::planner {

namespace {

// Of each run, the numbers of its pairs of traits; a trait with itself is one of them.
std::vector<std::vector<std::size_t>> pairs_of(std::span<const spec::Run> runs, std::size_t& num_pairs) {
  std::map<std::string, std::size_t> numbers;
  std::vector<std::vector<std::size_t>> out;
  for (const auto& run : runs) {
    const auto own = traits(run);
    auto& pairs = out.emplace_back();
    for (std::size_t i = 0; i < own.size(); ++i)
      for (std::size_t j = i; j < own.size(); ++j)
        pairs.push_back(
            numbers.try_emplace(cat(i, "=", own[i].second, " ", j, "=", own[j].second), numbers.size())
                .first->second);
  }
  num_pairs = numbers.size();
  return out;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> traits(const spec::Run& run) {
  const auto& layout = run.layout;
  const std::int64_t micro = run.num_micro_batches();
  const bool is_uneven = !layout.micro_batches_by_rank.empty() ||
                         run.training.global_batch % (layout.dp() * layout.micro_batch) != 0;
  std::vector<std::pair<std::string, std::string>> out = {
      {"pp", cat(layout.pp)},
      {"dp_replicate", cat(layout.dp_replicate)},
      {"dp_shard", cat(layout.dp_shard)},
      {"cp", layout.cp_heads == 1           ? cat(layout.cp)
             : layout.cp_heads == layout.cp ? cat(layout.cp, ", by heads")
                                            : cat(layout.cp, ", by ", layout.cp_heads, " heads")},
      {"tp", spec::tp_text(layout) + (layout.tp > 1 && !layout.sequence_parallel ? ", stream whole" : "")},
      {"tp gather", layout.tp_gather ? "on" : "off"},
      {"tp overlap", layout.tp_overlap ? "on" : "off"},
      {"ep overlap", layout.ep_overlap ? "on" : "off"},
      {"tp regather", layout.regathers() ? "on" : "off"},
      {"zero", cat(layout.zero)},
      {"steps", !layout.overlap_steps ? "apart" : cat("overlap, by ", spec::word(layout.communication))},
      {"credit", layout.credit_kib > 0 ? "several slices" : "one slice"},
      {"slices", layout.slice_kib > 0 ? "of blocks" : "none"},
      {"schedule", spec::word(layout.schedule)},
      {"stages", layout.stages.empty() ? "by cost" : "by hand"},
      {"recompute", spec::word(layout.recompute)},
      {"offload", layout.offload.empty() ? "none" : layout.offload},
      {"micro-batches", cat(micro == 1 ? "one" : "several", is_uneven ? ", uneven" : "")}};
  if (run.model.experts > 0) {
    out.emplace_back("ep", cat(layout.ep));
    out.emplace_back("etp", cat(layout.etp));
  }
  return out;
}

std::string layout_text(const spec::Run& run) {
  const auto usual = traits({.model = run.model, .training = run.training});
  std::vector<std::string> words;
  const auto own = traits(run);
  for (std::size_t i = 0; i < own.size(); ++i)
    if (own[i].second != usual[i].second) words.push_back(cat(own[i].first, " ", own[i].second));
  return words.empty() ? "one rank" : join(words, ", ");
}

std::vector<spec::Run> spread(std::span<const spec::Run> runs, std::size_t count, std::uint64_t seed) {
  std::size_t num_pairs = 0;
  const auto pairs = pairs_of(runs, num_pairs);
  std::vector<std::size_t> order(runs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = 0; i + 1 < order.size(); ++i)
    std::swap(order[i], order[i + random_bits(seed, 2, i) % (order.size() - i)]);
  std::vector<bool> is_covered(num_pairs, false), is_taken(runs.size(), false);
  std::vector<std::size_t> chosen;
  while (chosen.size() < std::min(count, runs.size())) {
    std::size_t best = runs.size(), best_gain = 0;
    for (const std::size_t i : order) {
      if (is_taken[i]) continue;
      const auto gain = static_cast<std::size_t>(
          std::ranges::count_if(pairs[i], [&](auto pair) { return !is_covered[pair]; }));
      if (best == runs.size() || gain > best_gain) best = i, best_gain = gain;
    }
    is_taken[best] = true;
    for (const auto pair : pairs[best]) is_covered[pair] = true;
    chosen.push_back(best);
  }
  std::ranges::sort(chosen);
  std::vector<spec::Run> out;
  for (const auto i : chosen) out.push_back(runs[i]);
  return out;
}

}  // namespace tessera::planner
