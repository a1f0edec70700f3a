#include "tessera/data/indexed/documents.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera::data {

std::uint64_t Documents::begin(std::uint64_t document) const {
  std::uint64_t out = 0;
  begins(document, {&out, 1});
  return out;
}

std::uint64_t Documents::length(std::uint64_t document) const {
  std::uint64_t ends[2];
  begins(document, ends);
  return ends[1] - ends[0];
}

// Guesses by the mean length of what is left, and halves it every other time, whatever the lengths are.
std::uint64_t document_at(const Documents& documents, std::uint64_t place) {
  TESSERA_CHECK(place < documents.num_tokens(), "place ", place, " of ", documents.num_tokens());
  std::uint64_t low = 0, high = documents.num_documents();  // begin(low) <= place < begin(high)
  std::uint64_t low_begin = 0, high_begin = documents.num_tokens();
  for (bool halve = false; high - low > 1; halve = !halve) {
    const double share = static_cast<double>(place - low_begin) / static_cast<double>(high_begin - low_begin);
    const auto guess = low + static_cast<std::uint64_t>(share * static_cast<double>(high - low));
    const std::uint64_t middle = std::clamp(halve ? low + (high - low) / 2 : guess, low + 1, high - 1);
    const std::uint64_t begin = documents.begin(middle);
    (begin <= place ? low : high) = middle;
    (begin <= place ? low_begin : high_begin) = begin;
  }
  return low;
}

}  // namespace tessera::data
