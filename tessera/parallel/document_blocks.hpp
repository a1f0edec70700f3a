// The blocks of queries and keys that attention within documents is made of. The host knows where documents
// end, so that a block is all of its queries and keys or a triangle of them, never a mask, and the work
// follows the squares of the documents' lengths.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::parallel {

// Attention stays within documents. Equal on all ranks that share the samples.
struct Documents {
  // Of each sample, where its documents end over the *whole* sequence: rising, one past their last position,
  // the last at the sequence's length. No samples: each is one document.
  std::vector<std::vector<std::int64_t>> ends;

  bool cut_samples() const;  // whether a sample has several
  // Where the document begins that a position of a sample belongs to.
  std::int64_t begin_of(std::int64_t sample, std::int64_t position) const;
  bool operator==(const Documents&) const = default;
};

struct Range {
  std::int64_t first = 0, count = 0;
  bool operator==(const Range&) const = default;
};

// Queries of one ring place and keys of one, counted as the places hold them. Every query sees every key or,
// if causal, those up to itself; then both are the same positions.
struct DocumentBlock {
  Range samples, queries, keys;
  bool causal = false;
  bool operator==(const DocumentBlock&) const = default;
};

// What one place's attention is cut into.
class DocumentBlocks {
 public:
  // `positions` are those of one ring place; `place` is the one whose queries these are.
  DocumentBlocks(const Documents& documents, std::int64_t samples, std::int64_t positions, std::int64_t ring,
                 std::int64_t place);

  // By sample, then by document; those of the place's own keys hold each query once. Equal samples that
  // follow each other share their blocks.
  std::vector<DocumentBlock> with_keys_of(std::int64_t place) const;

 private:
  struct EqualSamples {
    Range samples;
    std::vector<std::int64_t> ends;
  };
  std::vector<EqualSamples> samples_;
  std::int64_t positions_, ring_, place_;
};

}  // namespace tessera::parallel
