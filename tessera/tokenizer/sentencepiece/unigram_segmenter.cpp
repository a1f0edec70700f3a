#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/tokenizer/sentencepiece/segmenter.hpp"

namespace tessera::tokenizer::sentencepiece {
namespace {

// The segmentation with the highest sum of scores, by Viterbi's algorithm. Sums are floats that are added in
// the order of SentencePiece, so that near ties end as they do there.
class UnigramSegmenter final : public Segmenter {
 public:
  explicit UnigramSegmenter(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {
    float least = std::numeric_limits<float>::max();
    for (Token token = 0; token < vocabulary.size(); ++token)
      if (vocabulary[token].type == PieceType::normal) least = std::min(least, vocabulary[token].score);
    unknown_score_ = least - kUnknownPenalty;
  }

  void segment(std::string_view text, std::vector<Segment>& out) const override {
    const std::vector<Best> best = best_ends(text);
    const std::size_t first = out.size();
    for (std::size_t end = text.size(); end > 0;) {
      const Best& last = best[end];
      const auto begin = static_cast<std::size_t>(last.begin);
      out.push_back({text.substr(begin, end - begin), last.token});
      end = begin;
    }
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
  }

 private:
  static constexpr float kUnknownPenalty = 10, kMostSum = 100000;

  // The best segmentation of the text up to one place.
  struct Best {
    float sum = 0;
    std::ptrdiff_t begin = -1;  // of its last segment, or -1
    Token token = kNoToken;
  };

  std::vector<Best> best_ends(std::string_view text) const {
    std::vector<Best> best(text.size() + 1);
    std::size_t furthest = 0;
    for (std::size_t at = 0; at < text.size();) {
      reset_sums(best, at, furthest);
      const float sum = best[at].sum;
      const auto offer = [&](std::size_t bytes, Token token, float score) {
        Best& end = best[at + bytes];
        furthest = std::max(furthest, at + bytes);
        const float candidate = score + sum;
        if (end.begin >= 0 && !(candidate > end.sum)) return;
        end = {candidate, static_cast<std::ptrdiff_t>(at), token};
      };
      const std::size_t character = character_bytes(text.substr(at));
      bool has_character = false;
      vocabulary_.segments().find(text.substr(at), [&](std::size_t bytes, Token token) {
        const Piece& piece = vocabulary_[token];
        if (piece.type == PieceType::unused) return;
        offer(bytes, token, piece.type == PieceType::user_defined ? whole_score(bytes) : piece.score);
        has_character |= bytes == character;
      });
      if (!has_character) offer(character, vocabulary_.unknown(), unknown_score_);
      at += character;
    }
    return best;
  }

  // Sums of long texts would lose the digits in which segmentations differ.
  static void reset_sums(std::vector<Best>& best, std::size_t at, std::size_t furthest) {
    const float sum = best[at].sum;
    if (!(std::abs(sum) > kMostSum)) return;
    for (std::size_t i = at; i <= furthest; ++i)
      if (i == at || best[i].begin >= 0) best[i].sum -= sum;
    best[at].sum = 0;
  }

  // Above those of all segmentations of its characters.
  static float whole_score(std::size_t bytes) {
    return static_cast<float>(0.1 * static_cast<double>(static_cast<int>(bytes) - 1));
  }

  const Vocabulary& vocabulary_;
  float unknown_score_ = 0;
};

}  // namespace

std::unique_ptr<Segmenter> unigram_segmenter(const Vocabulary& vocabulary) {
  return std::make_unique<UnigramSegmenter>(vocabulary);
}

}  // namespace tessera::tokenizer::sentencepiece
