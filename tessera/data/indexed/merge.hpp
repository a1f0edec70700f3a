// Joins pairs of .bin and .idx into one, and reads all of one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tessera/data/indexed/indexed_file.hpp"
#include "tessera/data/indexed/length_histogram.hpp"

namespace tessera::data {

// Tokens that were read, and all of them.
using PairProgress = std::function<void(std::uint64_t done, std::uint64_t all)>;
// Of every document, in order.
using DocumentReader = std::function<void(std::span<const std::int32_t> tokens)>;

// Calls `act` with each document. Throws UserError when the index is damaged or a token is below 0 or too
// large.
void for_documents(const IndexedFile& pair, const PairProgress& progress, const DocumentReader& act);

// Writes all documents of the pairs, one pair after the other, as a new pair; what `output` is must not
// exist. Their masks are joined too, if all of them have one. Throws UserError.
void merge_pairs(const std::vector<std::string>& names, const std::string& output,
                 const PairProgress& progress);

LengthHistogram length_histogram(const Documents& documents);

}  // namespace tessera::data
