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
    : positions_(positions), ring_(ring), place_(place), window_(documents.window) {
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
  if (window_ > 0) return within_window(place);
  const std::int64_t first_query = place > place_ ? positions_ / 2 : 0;
  const std::int64_t num_keys = place < place_ ? positions_ / 2 : positions_;
  std::vector<DocumentBlock> blocks;
  for (const auto& [samples, ends] : samples_) {
    std::int64_t begin = 0;
    for (const std::int64_t end : ends) {
      const std::int64_t query = std::max(held_before(begin, place_), first_query),
                         key = held_before(begin, place);
      const Range queries{query, held_before(end, place_) - query};
      const Range keys{key, std::min(held_before(end, place), num_keys) - key};
      if (queries.count > 0 && keys.count > 0)
        blocks.push_back({samples, queries, keys, /*causal=*/place == place_});
      begin = end;
    }
  }
  return blocks;
}

std::int64_t DocumentBlocks::held_before(std::int64_t position, std::int64_t place) const {
  return program::context_positions_before(position, positions_ * ring_, ring_, place);
}

std::vector<DocumentBlocks::Piece> DocumentBlocks::pieces_of(const Range& document,
                                                             std::int64_t place) const {
  const std::int64_t chunk = ring_ == 1 ? positions_ : positions_ / 2;
  std::vector<std::int64_t> chunks = {place};
  if (ring_ > 1) chunks.push_back(2 * ring_ - 1 - place);
  std::vector<Piece> out;
  for (const std::int64_t number : chunks) {
    const std::int64_t end = std::min(document.first + document.count, (number + 1) * chunk);
    for (std::int64_t at = std::max(document.first, number * chunk); at < end;) {
      const std::int64_t tile = (at - document.first) / window_, begin = document.first + tile * window_;
      const std::int64_t stop = std::min(end, begin + window_);
      out.push_back({tile, at - begin, stop - at, held_before(at, place)});
      at = stop;
    }
  }
  return out;
}

// A document is cut into tiles as long as the window. Query i of a tile sees key j of its own tile if j <= i,
// and key j of the tile before if j > i.
std::vector<DocumentBlock> DocumentBlocks::within_window(std::int64_t place) const {
  std::vector<DocumentBlock> blocks;
  const auto see = [&](const Range& samples, const Piece& q, const Piece& k) {
    const auto add = [&](const Range& queries, const Range& keys, bool causal, bool reversed) {
      if (queries.count > 0 && keys.count > 0) blocks.push_back({samples, queries, keys, causal, reversed});
    };
    const std::int64_t q_end = q.first + q.count, k_end = k.first + k.count;
    if (k.tile == q.tile) {
      if (k.first <= q.first)
        add(q.range(q.first, q_end), k.range(k.first, k_end), /*causal=*/k.first == q.first, false);
      return;
    }
    if (k.tile + 1 != q.tile) return;
    const std::int64_t first = std::clamp(k.first, q.first, q_end);  // queries before it see all keys
    add(q.range(q.first, first), k.range(k.first, k_end), false, false);
    const std::int64_t later = std::clamp(q_end, k.first, k_end);  // from there on all queries see the keys
    add(q.range(first, q_end), k.range(later, k_end), false, false);
    const std::int64_t last = std::min(q_end, k_end);
    if (last - first > 1) add(q.range(first, last - 1), k.range(first + 1, last), true, true);
  };
  for (const auto& [samples, ends] : samples_) {
    std::int64_t begin = 0;
    for (const std::int64_t end : ends) {
      const auto keys = pieces_of({begin, end - begin}, place);
      for (const Piece& q : pieces_of({begin, end - begin}, place_))
        for (const Piece& k : keys) see(samples, q, k);
      begin = end;
    }
  }
  std::ranges::stable_partition(blocks, &DocumentBlock::begins_rows);
  return blocks;
}

}  // namespace tessera::parallel
