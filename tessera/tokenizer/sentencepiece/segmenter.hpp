// Cuts texts into the pieces of a vocabulary, by the algorithm that the model was trained for.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tessera/tokenizer/sentencepiece/vocabulary.hpp"

namespace tessera::tokenizer::sentencepiece {

struct Segment {
  std::string_view text;
  Token token = kNoToken;  // vocabulary.unknown() if it is not a piece
  bool operator==(const Segment&) const = default;
};

// Const, and shared by threads.
class Segmenter {
 public:
  virtual ~Segmenter() = default;
  // Appends segments that together are the text, and refer to it.
  virtual void segment(std::string_view text, std::vector<Segment>& out) const = 0;
};

// The vocabulary outlives the segmenter.
std::unique_ptr<Segmenter> make_segmenter(Algorithm algorithm, const Vocabulary& vocabulary);
std::unique_ptr<Segmenter> bpe_segmenter(const Vocabulary& vocabulary);
std::unique_ptr<Segmenter> unigram_segmenter(const Vocabulary& vocabulary);

// Bytes of the first character, by its first byte alone, and at most those there are.
std::size_t character_bytes(std::string_view text);
// Bytes up to the second word: words begin with a mark.
std::size_t word_bytes(std::string_view text);

}  // namespace tessera::tokenizer::sentencepiece
