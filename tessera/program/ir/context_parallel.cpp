#include "tessera/program/ir/context_parallel.hpp"

#include <algorithm>
#include <numeric>

#include "tessera/base/error.hpp"

namespace tessera::program {

std::int64_t context_multiple(const ContextSizes& sizes) {
  // A ring of one holds its two chunks end to end: the whole sequence, odd or even.
  return std::lcm(sizes.ring > 1 ? 2 * sizes.ring : 1, sizes.ring * sizes.heads);
}

std::vector<std::int64_t> context_positions(std::int64_t sequence, const ContextSizes& sizes,
                                            const ContextPlace& place) {
  TESSERA_CHECK(place.ring >= 0 && place.ring < sizes.ring && place.heads >= 0 && place.heads < sizes.heads,
                "no place (", place.ring, ", ", place.heads, ") in ", sizes.ring, " x ", sizes.heads,
                " ranks");
  TESSERA_CHECK(sequence % context_multiple(sizes) == 0, sequence, " positions don't fit ", sizes.ring, " x ",
                sizes.heads, " ranks");
  const std::int64_t of_place = sequence / sizes.ring, of_rank = of_place / sizes.heads;
  const std::int64_t early = of_place / 2, late = of_place - early;
  const std::int64_t late_begin = sizes.ring == 1 ? early : (2 * sizes.ring - 1 - place.ring) * late;
  std::vector<std::int64_t> positions;
  for (std::int64_t i = place.heads * of_rank; i < (place.heads + 1) * of_rank; ++i)
    positions.push_back(i < early ? place.ring * early + i : late_begin + i - early);
  return positions;
}

std::int64_t context_positions_before(std::int64_t position, std::int64_t sequence, std::int64_t ring,
                                      std::int64_t place) {
  if (ring == 1) return position;
  const std::int64_t chunk = sequence / (2 * ring);
  const auto before = [&](std::int64_t first) {
    return std::clamp<std::int64_t>(position - first, 0, chunk);
  };
  return before(place * chunk) + before((2 * ring - 1 - place) * chunk);
}

std::int64_t exchanged_kv_heads(std::int64_t query_heads, std::int64_t kv_heads, std::int64_t ranks) {
  if (kv_heads % ranks == 0) return kv_heads;
  return ranks % kv_heads == 0 ? ranks : query_heads;
}

ContextCalls context_calls(const AttentionSizes& attention, const ContextSizes& sizes) {
  const std::int64_t narrow = bytes_of(attention.compute), wide = attention.compute == Dtype::fp64 ? 8 : 4;
  const std::int64_t head_elements = attention.samples * attention.positions * attention.head_dim;
  const std::int64_t kv_heads = exchanged_kv_heads(attention.query_heads, attention.kv_heads, sizes.heads);
  // The exchange of heads leaves a rank with `heads` times the positions and as many times fewer heads.
  const std::int64_t keys_and_values = 2 * kv_heads * head_elements;

  ContextCalls calls;
  const auto exchange = [&](std::vector<ContextCall>& list, std::int64_t num_heads) {
    if (sizes.heads > 1)
      list.push_back({CollectiveKind::all_to_all, ContextAxis::heads, num_heads * head_elements * narrow});
  };
  const auto shift = [](std::vector<ContextCall>& list, std::int64_t bytes) {
    list.push_back({CollectiveKind::shift, ContextAxis::ring, bytes});
  };
  exchange(calls.forward, attention.query_heads + 2 * kv_heads);
  for (std::int64_t hop = 1; hop < sizes.ring; ++hop) shift(calls.forward, keys_and_values * narrow);
  exchange(calls.forward, attention.query_heads);

  exchange(calls.backward, attention.query_heads);
  for (std::int64_t step = 0; step < sizes.ring; ++step) {
    if (step + 1 < sizes.ring) shift(calls.backward, keys_and_values * narrow);
    if (step > 0) shift(calls.backward, keys_and_values * wide);  // their gradients: sums are kept wide
  }
  exchange(calls.backward, attention.query_heads + 2 * kv_heads);
  return calls;
}

}  // namespace tessera::program
