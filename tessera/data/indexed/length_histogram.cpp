#include "tessera/data/indexed/length_histogram.hpp"

#include <algorithm>
#include <bit>

#include "tessera/base/text.hpp"

namespace tessera::data {

void LengthHistogram::add(std::uint64_t length) {
  ++counts_[std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(length)), counts_.size() - 1)];
}

void LengthHistogram::add(const LengthHistogram& other) {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

std::string LengthHistogram::to_text() const {
  constexpr std::uint64_t kWidth = 40;
  const auto most = std::ranges::max(counts_);
  std::vector<std::vector<std::string>> rows = {{"tokens", "documents", ""}};
  std::size_t first = 0, last = counts_.size();
  while (first < last && counts_[first] == 0) ++first;
  while (last > first && counts_[last - 1] == 0) --last;
  for (std::size_t i = first; i < last; ++i) {
    const std::uint64_t low = i == 0 ? 0 : std::uint64_t{1} << (i - 1), high = i == 0 ? 0 : 2 * low - 1;
    rows.push_back({low == high ? cat(low) : cat(low, " to ", high), cat(counts_[i]),
                    std::string((counts_[i] * kWidth + most - 1) / most, '#')});
  }
  return table(rows);
}

}  // namespace tessera::data
