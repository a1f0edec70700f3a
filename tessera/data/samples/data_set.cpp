#include "tessera/data/samples/data_set.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.hpp"
#include "tessera/data/byte_corpus.hpp"

namespace tessera::data {
namespace {

// Documents of the split, as [first, last).
PackingInput input_of(const DataSetOptions& options, const IndexedFile& file, std::uint64_t source) {
  const std::uint64_t all = file.num_documents();
  const auto held_out = static_cast<std::uint64_t>(std::ceil(options.validation * static_cast<double>(all)));
  const bool trains = options.split == Split::training;
  if (all == 0 || (options.validation > 0 && held_out >= all) || (!trains && held_out == 0))
    throw UserError(cat("'", file.name(), "' has ", all,
                        " documents, of which data.validation = ", options.validation, " takes ", held_out,
                        ": too few are left for ", trains ? "training" : "validation"));
  return {.documents = &file,
          .first_document = trains ? 0 : all - held_out,
          .last = trains ? all - held_out : all,
          .sequence = static_cast<std::uint64_t>(options.sequence),
          .seed = options.seed,
          .source = source};
}

std::unique_ptr<IndexedFile> mask_of(const IndexedFile& tokens) {
  const std::string name = tokens.name() + ".mask";
  if (!is_pair(name)) return nullptr;
  auto mask = std::make_unique<IndexedFile>(name);
  if (mask->num_tokens() != tokens.num_tokens() || mask->num_documents() != tokens.num_documents())
    throw UserError(cat("'", name, "' has ", mask->num_documents(), " documents of ", mask->num_tokens(),
                        " tokens, and '", tokens.name(), "' ", tokens.num_documents(), " of ",
                        tokens.num_tokens(), ". They don't belong together; tokenize anew."));
  return mask;
}

std::vector<double> weights_of(const DataSetOptions& options, std::span<const std::uint64_t> tokens) {
  if (options.weights.empty()) return {tokens.begin(), tokens.end()};
  if (options.weights.size() != options.sources.size())
    throw UserError(cat("data.weights has ", options.weights.size(), " numbers for ", options.sources.size(),
                        " sources"));
  return options.weights;
}

}  // namespace

std::vector<DataSet::Source> DataSet::opened(const DataSetOptions& options) {
  TESSERA_CHECK(options.sequence > 0, "sequence ", options.sequence);
  if (options.sources.empty()) throw UserError("data.sources names no pair of .bin and .idx to train on");
  std::vector<Source> out;
  for (const std::string& name : options.sources) {
    Source source{.tokens = std::make_unique<IndexedFile>(name)};
    source.mask = mask_of(*source.tokens);
    const PackingInput input = input_of(options, *source.tokens, out.size());
    source.packing = options.packing == PackingKind::cut ? cut_packing(input) : best_fit_packing(input);
    out.push_back(std::move(source));
  }
  return out;
}

DataSet::DataSet(const DataSetOptions& options)
    : options_(options), sources_(opened(options)), blend_([&] {
        std::vector<std::uint64_t> tokens;
        for (const Source& source : sources_) tokens.push_back(source.tokens->num_tokens());
        return weights_of(options, tokens);
      }()) {}

void DataSet::fill(std::span<const std::uint64_t> samples, const SampleRows& rows) const {
  const auto length = static_cast<std::size_t>(options_.sequence), all = samples.size() * length;
  TESSERA_CHECK(rows.tokens.size() == all && rows.targets.size() == all &&
                    (rows.documents.empty() || rows.documents.size() == all),
                "rows of ", rows.tokens.size(), ", ", rows.targets.size(), " and ", rows.documents.size(),
                " for ", samples.size(), " samples of ", length);
  std::ranges::fill(rows.tokens, 0);
  std::ranges::fill(rows.targets, kIgnoredTarget);
  std::vector<std::int64_t> read, counts;
  for (std::size_t row = 0; row < samples.size(); ++row) {
    const BlendPlace place = place_of(samples[row]);
    const Source& source = sources_[place.source];
    std::size_t at = row * length;
    std::int64_t document = 0;
    for (const Piece& piece : source.packing->pieces(place.index)) {
      read.resize(piece.length + (piece.is_cut ? 1 : 0));
      source.tokens->read(piece.place, read);
      counts.assign(read.size(), 1);
      if (source.mask) source.mask->read(piece.place, counts);
      std::copy_n(read.begin(), piece.length, rows.tokens.begin() + static_cast<std::ptrdiff_t>(at));
      for (std::size_t i = 1; i < read.size(); ++i)
        if (counts[i] != 0) rows.targets[at + i - 1] = read[i];
      if (!rows.documents.empty()) std::ranges::fill(rows.documents.subspan(at, piece.length), document);
      at += piece.length;
      ++document;
    }
    if (!rows.documents.empty())
      std::ranges::fill(rows.documents.subspan(at, (row + 1) * length - at), kPadding);
  }
}

}  // namespace tessera::data
