#include "tessera/parallel/document_blocks.hpp"

#include <algorithm>
#include <functional>

#include "tessera/base/error.hpp"
#include "tessera/program/ir/context_parallel.hpp"

namespace tessera::parallel {

std::int64_t Documents::begin_of(std::int64_t sample, std::int64_t position) const {
  if (ends.empty()) return 0;
  const auto& of_sample = ends.at(static_cast<std::size_t>(sample));
  const auto next = std::ranges::upper_bound(of_sample, position);
  return next == of_sample.begin() ? 0 : *std::prev(next);
}

bool Documents::cut_samples() const {
  return std::ranges::any_of(ends, [](const auto& of_sample) { return of_sample.size() > 1; });
}

DocumentBlocks::DocumentBlocks(const Documents& documents, std::int64_t samples, std::int64_t positions,
                               std::int64_t ring, std::int64_t place)
    : positions_(positions), ring_(ring), place_(place) {
  TESSERA_CHECK(ring == 1 || positions % 2 == 0, "a ring place holds two chunks, not ", positions,
                " positions");
  const std::int64_t sequence = positions * ring;
  if (documents.ends.empty()) {
    samples_.push_back({{0, samples}, {sequence}});
    return;
  }
  TESSERA_CHECK(std::ssize(documents.ends) == samples, "documents of ", documents.ends.size(),
                " samples for ", samples);
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    const auto& ends = documents.ends[static_cast<std::size_t>(sample)];
    TESSERA_CHECK(!ends.empty() && ends.front() > 0 && ends.back() == sequence &&
                      std::ranges::adjacent_find(ends, std::greater_equal()) == ends.end(),
                  "documents of sample ", sample, " do not make up ", sequence, " positions");
    if (!samples_.empty() && samples_.back().ends == ends)
      ++samples_.back().samples.count;
    else
      samples_.push_back({{sample, 1}, ends});
  }
}

// A document's positions follow each other in what a place holds, an early and a late chunk. Of the keys of a
// place before this one all queries see the early chunk; of those after it the late queries see all. So a
// document has one block with each place.
std::vector<DocumentBlock> DocumentBlocks::with_keys_of(std::int64_t place) const {
  const std::int64_t first_query = place > place_ ? positions_ / 2 : 0;
  const std::int64_t num_keys = place < place_ ? positions_ / 2 : positions_;
  const auto held = [&](std::int64_t position, std::int64_t by) {
    return program::context_positions_before(position, positions_ * ring_, ring_, by);
  };
  std::vector<DocumentBlock> blocks;
  for (const auto& [samples, ends] : samples_) {
    std::int64_t begin = 0;
    for (const std::int64_t end : ends) {
      const std::int64_t query = std::max(held(begin, place_), first_query), key = held(begin, place);
      const Range queries{query, held(end, place_) - query};
      const Range keys{key, std::min(held(end, place), num_keys) - key};
      if (queries.count > 0 && keys.count > 0)
        blocks.push_back({samples, queries, keys, /*causal=*/place == place_});
      begin = end;
    }
  }
  return blocks;
}

}  // namespace tessera::parallel
