#include "tessera/data/batch_plan.hpp"

#include <algorithm>
#include <numeric>

#include "tessera/base/error.hpp"

namespace tessera::data {

std::vector<std::uint64_t> samples_of(std::uint64_t cursor, std::int64_t global_batch, std::int64_t dp_rank,
                                      std::int64_t dp_size, std::int64_t micro_batch,
                                      std::int64_t micro_index) {
  TESSERA_CHECK(0 <= dp_rank && dp_rank < dp_size, "data rank ", dp_rank, " of ", dp_size);
  TESSERA_CHECK(micro_index >= 0 && micro_batch > 0, "micro-batch ", micro_index, " of ", micro_batch,
                " samples");
  const std::int64_t first = std::min(global_batch, (micro_index * dp_size + dp_rank) * micro_batch);
  const std::int64_t last = std::min(global_batch, first + micro_batch);
  std::vector<std::uint64_t> samples(static_cast<std::size_t>(last - first));
  std::iota(samples.begin(), samples.end(), cursor + static_cast<std::uint64_t>(first));
  return samples;
}

std::vector<std::uint64_t> samples_of(std::uint64_t cursor, std::int64_t dp_rank,
                                      std::span<const std::int64_t> micro_batches_by_rank,
                                      std::int64_t micro_batch, std::int64_t micro_index) {
  TESSERA_CHECK(0 <= dp_rank && dp_rank < std::ssize(micro_batches_by_rank), "data rank ", dp_rank, " of ",
                micro_batches_by_rank.size());
  if (micro_index >= micro_batches_by_rank[static_cast<std::size_t>(dp_rank)]) return {};
  std::int64_t before = 0;
  for (std::int64_t rank = 0; rank < std::ssize(micro_batches_by_rank); ++rank) {
    const std::int64_t own = micro_batches_by_rank[static_cast<std::size_t>(rank)];
    before += std::min(own, micro_index) + (rank < dp_rank && own > micro_index);
  }
  std::vector<std::uint64_t> samples(static_cast<std::size_t>(micro_batch));
  std::iota(samples.begin(), samples.end(), cursor + static_cast<std::uint64_t>(before * micro_batch));
  return samples;
}

}  // namespace tessera::data
