#include "tessera/data/indexed/merge.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/data/indexed/indexed_writer.hpp"

namespace tessera::data {
namespace {

constexpr std::uint64_t kDocumentsAtOnce = 1 << 12;

// Holds the tokens of all of them; i32 holds those of any vocabulary.
TokenType common_type(const std::vector<std::string>& names) {
  const TokenType first = IndexedFile(names.front()).type();
  const bool are_equal =
      std::ranges::all_of(names, [&](const auto& name) { return IndexedFile(name).type() == first; });
  return are_equal ? first : TokenType::i32;
}

void merge_one_kind(const std::vector<std::string>& names, const std::string& output,
                    const PairProgress& progress) {
  for (const char* suffix : {".bin", ".idx"})
    if (std::filesystem::exists(output + suffix))
      throw UserError(cat("'", output, suffix, "' is there already. Delete it, or write elsewhere."));
  std::uint64_t before = 0, all = 0;
  for (const std::string& name : names) all += IndexedFile(name).num_tokens();
  IndexedWriter writer(output, common_type(names));
  for (const std::string& name : names) {
    const IndexedFile pair(name);
    for_documents(
        pair, [&](std::uint64_t done, std::uint64_t) { progress(before + done, all); },
        [&](std::span<const std::int32_t> tokens) { writer.add(tokens); });
    before += pair.num_tokens();
  }
  writer.finish();
}

}  // namespace

void for_documents(const IndexedFile& pair, const PairProgress& progress, const DocumentReader& act) {
  std::vector<std::uint64_t> begins;
  std::vector<std::int64_t> read;
  std::vector<std::int32_t> tokens;
  for (std::uint64_t first = 0; first < pair.num_documents(); first += kDocumentsAtOnce) {
    begins.resize(std::min(kDocumentsAtOnce, pair.num_documents() - first) + 1);
    pair.begins(first, begins);
    for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
      read.resize(begins[i + 1] - begins[i]);
      pair.read(begins[i], read);
      for (const std::int64_t token : read)
        if (token < 0 || token > std::numeric_limits<std::int32_t>::max())
          throw UserError(
              cat("'", pair.name(), "': document ", first + i, " holds ", token, ", which is no token"));
      tokens.assign(read.begin(), read.end());
      act(tokens);
    }
    progress(begins.back(), pair.num_tokens());
  }
}

void merge_pairs(const std::vector<std::string>& names, const std::string& output,
                 const PairProgress& progress) {
  TESSERA_CHECK(!names.empty(), "nothing to merge");
  std::vector<std::string> masks;
  for (const std::string& name : names)
    if (is_pair(pair_name(name) + ".mask")) masks.push_back(pair_name(name) + ".mask");
  if (!masks.empty() && masks.size() != names.size())
    throw UserError(cat("only ", masks.size(), " of ", names.size(),
                        " pairs have a mask; merge those with and those ", "without one apart"));
  if (!masks.empty()) merge_one_kind(masks, pair_name(output) + ".mask", [](auto, auto) {});
  merge_one_kind(names, pair_name(output), progress);
}

LengthHistogram length_histogram(const Documents& documents) {
  LengthHistogram out;
  std::vector<std::uint64_t> begins;
  for (std::uint64_t first = 0; first < documents.num_documents(); first += kDocumentsAtOnce) {
    begins.resize(std::min(kDocumentsAtOnce, documents.num_documents() - first) + 1);
    documents.begins(first, begins);
    for (std::size_t i = 0; i + 1 < begins.size(); ++i) out.add(begins[i + 1] - begins[i]);
  }
  return out;
}

}  // namespace tessera::data
