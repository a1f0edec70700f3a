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
  std::int64_t window =
      0;  // positions that a query sees, its own among them; 0: all of its document before it

  bool cut_samples() const;  // whether a sample has several
  // Where the document begins that a position of a sample belongs to.
  std::int64_t begin_of(std::int64_t sample, std::int64_t position) const;
  bool operator==(const Documents&) const = default;
};

struct Range {
  std::int64_t first = 0, count = 0;
  bool operator==(const Range&) const = default;
};

// Queries of one ring place and keys of one, counted as the places hold them, equally many if causal. Every
// query sees every key or, if causal, those up to the one of its own number; if reversed too, counted from
// the end.
struct DocumentBlock {
  Range samples, queries, keys;
  bool causal = false;
  bool reversed = false;
  // Whether its queries are in no other such block: these come first, all others are merged into them.
  bool begins_rows() const { return causal && !reversed; }
  bool operator==(const DocumentBlock&) const = default;
};

// What one place's attention is cut into.
class DocumentBlocks {
 public:
  // `positions` are those of one ring place; `place` is the one whose queries these are.
  DocumentBlocks(const Documents& documents, std::int64_t samples, std::int64_t positions, std::int64_t ring,
                 std::int64_t place);

  // Of the place's own keys, those that begin rows hold each query once and come first. Equal samples that
  // follow each other share their blocks.
  std::vector<DocumentBlock> with_keys_of(std::int64_t place) const;

 private:
  struct EqualSamples {
    Range samples;
    std::vector<std::int64_t> ends;
  };
  // What a place holds of a document within one tile, which has as many positions as the window.
  struct Piece {
    std::int64_t tile, first, count;  // counted from the tile's begin
    std::int64_t held;                // the first of them, as the place counts
    Range range(std::int64_t begin, std::int64_t end) const { return {held + begin - first, end - begin}; }
  };
  std::vector<Piece> pieces_of(const Range& document, std::int64_t place) const;
  std::vector<DocumentBlock> within_window(std::int64_t place) const;
  std::int64_t held_before(std::int64_t position, std::int64_t place) const;

  std::vector<EqualSamples> samples_;
  std::int64_t positions_, ring_, place_, window_;
};

}  // namespace tessera::parallel
