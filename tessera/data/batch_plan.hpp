// Returns which samples are in micro-batch m of data rank r: arithmetic on the sample cursor, the same on
// every rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::data {

// Global sample indices of one micro-batch: [(micro_index * dp_size + dp_rank) * micro_batch, + micro_batch)
// cut at global_batch, from the cursor on. The last ones may be short or empty, and so is any after them.
std::vector<std::uint64_t> samples_of(std::uint64_t cursor, std::int64_t global_batch, std::int64_t dp_rank,
                                      std::int64_t dp_size, std::int64_t micro_batch,
                                      std::int64_t micro_index);

// The same where data-parallel ranks have unequal numbers of micro-batches: in each round those that have any
// left take one, the lower rank first. The numbers add up to the batch.
std::vector<std::uint64_t> samples_of(std::uint64_t cursor, std::int64_t dp_rank,
                                      std::span<const std::int64_t> micro_batches_by_rank,
                                      std::int64_t micro_batch, std::int64_t micro_index);

}  // namespace tessera::data
