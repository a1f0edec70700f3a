// How a text is cut into the words that the model encodes one by one.
#pragma once

#include <memory>
#include <vector>

#include "tessera/tokenizer/pipeline/component.hpp"
#include "tessera/tokenizer/split/splitter.hpp"

namespace tessera::tokenizer {

// Const, and shared by threads.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Pieces are valid until the sink returns.
  virtual void split(Piece piece, PieceSink& sink) const = 0;
};

struct PreTokenizers {
  std::vector<std::unique_ptr<PreTokenizer>> steps;  // each cuts what the one before it has left
  bool by_bytes = false;                             // ByteLevel: the model's tokens are bytes
};

// Split, ByteLevel, Digits, Punctuation, Metaspace, Whitespace, WhitespaceSplit and Sequence. Throws
// UserError naming any other.
PreTokenizers make_pre_tokenizers(const Component& component);

// Split at this pattern, each match a piece; then ByteLevel.
PreTokenizers byte_level_split(const std::string& pattern);

}  // namespace tessera::tokenizer
