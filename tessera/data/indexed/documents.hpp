// A stream of tokens in which documents follow each other, read at any place.
#pragma once

#include <cstdint>
#include <span>

namespace tessera::data {

class Documents {
 public:
  virtual ~Documents() = default;
  virtual std::uint64_t num_documents() const = 0;
  virtual std::uint64_t num_tokens() const = 0;
  // Places in the stream where documents first, first + 1, ... begin, ascending; where the last one ends
  // counts as the begin of one more.
  virtual void begins(std::uint64_t first, std::span<std::uint64_t> out) const = 0;
  // Tokens from place `first` on.
  virtual void read(std::uint64_t first, std::span<std::int64_t> out) const = 0;

  std::uint64_t begin(std::uint64_t document) const;
  std::uint64_t length(std::uint64_t document) const;
};

// The document that holds the token at a place below num_tokens(). Asks for a few begins where documents are
// about equally long, and for some two times the binary logarithm of their number at worst.
std::uint64_t document_at(const Documents& documents, std::uint64_t place);

}  // namespace tessera::data
