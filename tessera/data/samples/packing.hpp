// How the documents of a source become samples of one length.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/data/indexed/documents.hpp"

namespace tessera::data {

// Consecutive tokens of one document, in one sample.
struct Piece {
  std::uint64_t place = 0;   // of its first token, in the stream of the source
  std::uint32_t length = 0;  // at least 1
  bool is_cut = false;       // the document goes on after it: its last token has a target
  bool operator==(const Piece&) const = default;
};

// Samples are counted through all epochs; each epoch has every sample once, in an order of its own.
class Packing {
 public:
  virtual ~Packing() = default;
  virtual std::uint64_t num_samples() const = 0;  // of an epoch
  // What the sample holds, from its front on; together at most `sequence` tokens. Safe to call from several
  // threads.
  virtual std::vector<Piece> pieces(std::uint64_t index) const = 0;
};

struct PackingInput {
  const Documents* documents = nullptr;        // outlives the packing
  std::uint64_t first_document = 0, last = 0;  // those before `last`
  std::uint64_t sequence = 0;
  std::uint64_t seed = 1;
  std::uint64_t source = 0;  // its number: sources of one seed have different orders
};

// All documents one after the other, cut every `sequence` tokens; what is left at the end is not read. A
// document is cut wherever a sample ends. Throws UserError when there is not one whole sample.
std::unique_ptr<Packing> cut_packing(const PackingInput& input);

// Whole documents, joined so that little of a sample stays empty; those longer than a sample are cut into
// samples and a rest. Note [Best fit without an index] in best_fit.cpp says how it does without one. Throws
// UserError when there is no token.
std::unique_ptr<Packing> best_fit_packing(const PackingInput& input);

}  // namespace tessera::data
