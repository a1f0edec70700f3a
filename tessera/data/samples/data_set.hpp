// The samples of a training run: sources of tokenized documents, blended by weight, packed to one length, and
// read in an order that is a function of the seed and the global sample index.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/data/indexed/indexed_file.hpp"
#include "tessera/data/samples/blend.hpp"
#include "tessera/data/samples/packing.hpp"

namespace tessera::data {

enum class PackingKind { cut, best_fit };
// Of every source the last documents are for validation, the others for training.
enum class Split { training, validation };

struct DataSetOptions {
  std::vector<std::string> sources;  // names of pairs; a pair name.mask beside one says which tokens count
  std::vector<double> weights;       // one for each source; empty: as many samples of each as it has tokens
  PackingKind packing = PackingKind::cut;
  std::int64_t sequence = 0;
  std::uint64_t seed = 1;
  std::uint64_t skip = 0;  // so many global samples come before the first
  double validation = 0;   // share of the documents of each source
  Split split = Split::training;
};

// Rows of `sequence` numbers for each sample.
struct SampleRows {
  std::span<std::int64_t> tokens;
  std::span<std::int64_t> targets;    // kIgnoredTarget where none counts
  std::span<std::int64_t> documents;  // which one of its row a token belongs to, from 0 on; may be empty
};

class DataSet {
 public:
  // Throws UserError when a pair can't be opened, or has too few documents for a sample or the split.
  explicit DataSet(const DataSetOptions& options);

  std::int64_t sequence() const { return options_.sequence; }
  std::size_t num_sources() const { return sources_.size(); }
  const IndexedFile& source(std::size_t number) const { return *sources_.at(number).tokens; }
  const Blend& blend() const { return blend_; }
  // Of one epoch of a source.
  std::uint64_t num_samples(std::size_t source) const { return sources_.at(source).packing->num_samples(); }
  // Where global sample `index` comes from.
  BlendPlace place_of(std::uint64_t index) const { return blend_.at(options_.skip + index); }

  // Fills a row for each global sample index. Room that is left after the last document holds token 0 and
  // counts as a document of its own. Throws UserError when a file can't be read any more.
  void fill(std::span<const std::uint64_t> samples, const SampleRows& rows) const;

 private:
  struct Source {
    std::unique_ptr<IndexedFile> tokens, mask;  // no mask: all tokens count
    std::unique_ptr<Packing> packing;
  };
  static std::vector<Source> opened(const DataSetOptions& options);

  DataSetOptions options_;
  std::vector<Source> sources_;
  Blend blend_;
};

// What the files of all sources hold, in short: their bytes, and a hash of the headers and of blocks spread
// over them. Two data sets with other contents or another order of sources differ; read in a moment.
struct Fingerprint {
  std::uint64_t bytes = 0, hash = 0;
  bool operator==(const Fingerprint&) const = default;
};
Fingerprint fingerprint_of(std::span<const std::string> sources);

}  // namespace tessera::data
