#include "tessera/tokenizer/sentencepiece/segmenter.hpp"

#include <algorithm>

namespace tessera::tokenizer::sentencepiece {
namespace {

// Models whose pieces are words or characters, of which none is cut or joined.
class WholeSegmenter final : public Segmenter {
 public:
  WholeSegmenter(const Vocabulary& vocabulary, bool by_words)
      : vocabulary_(vocabulary), by_words_(by_words) {}
  void segment(std::string_view text, std::vector<Segment>& out) const override {
    while (!text.empty()) {
      const std::string_view piece = text.substr(0, bytes_of_piece(text));
      const Token token = vocabulary_.find_segment(piece);
      const bool is_unused = vocabulary_.has(token) && vocabulary_[token].type == PieceType::unused;
      out.push_back({piece, is_unused ? vocabulary_.unknown() : token});
      text.remove_prefix(piece.size());
    }
  }

 private:
  std::size_t bytes_of_piece(std::string_view text) const {
    if (by_words_) return word_bytes(text);
    const std::size_t kept = vocabulary_.user_defined().longest(text);
    return kept > 0 ? kept : character_bytes(text);
  }

  const Vocabulary& vocabulary_;
  bool by_words_;
};

}  // namespace

std::size_t character_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return std::min(bytes, text.size());
}

std::size_t word_bytes(std::string_view text) { return std::min(text.find(kMark, 1), text.size()); }

std::unique_ptr<Segmenter> make_segmenter(Algorithm algorithm, const Vocabulary& vocabulary) {
  switch (algorithm) {
    case Algorithm::unigram:
      return unigram_segmenter(vocabulary);
    case Algorithm::bpe:
      return bpe_segmenter(vocabulary);
    case Algorithm::word:
    case Algorithm::character:
      break;
  }
  return std::make_unique<WholeSegmenter>(vocabulary, algorithm == Algorithm::word);
}

}  // namespace tessera::tokenizer::sentencepiece
