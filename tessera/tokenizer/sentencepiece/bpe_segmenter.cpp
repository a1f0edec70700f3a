#include <compare>
#include <queue>
#include <unordered_map>

#include "tessera/tokenizer/sentencepiece/segmenter.hpp"

namespace tessera::tokenizer::sentencepiece {
namespace {

struct Symbol {
  std::string_view text;  // empty: it was joined to one before it
  std::int64_t before = -1, after = -1;
  bool is_kept = false;  // a user-defined piece, which is joined to nothing
};

struct Joint {
  float score = 0;
  std::int64_t left = 0, right = 0;
  std::size_t bytes = 0;  // of both symbols when it was found
};

// Whether b is joined before a: of the higher score, or as high and further left. -0 is below 0.
struct IsLater {
  bool operator()(const Joint& a, const Joint& b) const {
    const auto order = std::strong_order(a.score, b.score);
    return order != 0 ? order < 0 : a.left > b.left;
  }
};

// Joins the symbols of one text.
class Joiner {
 public:
  Joiner(const Vocabulary& vocabulary, std::string_view text) : vocabulary_(vocabulary) {
    while (!text.empty()) {
      const std::size_t kept = vocabulary.user_defined().longest(text);
      const std::size_t bytes = kept > 0 ? kept : character_bytes(text);
      const auto at = std::ssize(symbols_);
      symbols_.push_back({text.substr(0, bytes), at - 1, text.size() > bytes ? at + 1 : -1, kept > 0});
      text.remove_prefix(bytes);
    }
    for (std::int64_t right = 1; right < std::ssize(symbols_); ++right) offer(right - 1, right);
  }

  void join_all() {
    while (!joints_.empty()) {
      const Joint joint = joints_.top();
      joints_.pop();
      Symbol &left = symbol(joint.left), &right = symbol(joint.right);
      const bool is_stale =
          left.text.empty() || right.text.empty() || left.text.size() + right.text.size() != joint.bytes;
      if (is_stale) continue;
      left.text = joined(left, right);
      left.after = right.after;
      if (right.after >= 0) symbol(right.after).before = joint.left;
      right.text = {};
      offer(left.before, joint.left);
      offer(joint.left, left.after);
    }
  }

  void write_to(std::vector<Segment>& out) const {
    for (std::int64_t at = symbols_.empty() ? -1 : 0; at >= 0;) {
      const Symbol& symbol = symbols_[static_cast<std::size_t>(at)];
      write(symbol.text, 0, out);
      at = symbol.after;
    }
  }

 private:
  static constexpr int kMostDepth = 100;

  Symbol& symbol(std::int64_t at) { return symbols_[static_cast<std::size_t>(at)]; }
  static std::string_view joined(const Symbol& left, const Symbol& right) {
    return {left.text.data(), left.text.size() + right.text.size()};
  }

  void offer(std::int64_t left, std::int64_t right) {
    if (left < 0 || right < 0 || symbol(left).is_kept || symbol(right).is_kept) return;
    const std::string_view text = joined(symbol(left), symbol(right));
    const Token token = vocabulary_.find_segment(text);
    if (token == vocabulary_.unknown()) return;
    const Piece& piece = vocabulary_[token];
    joints_.push({piece.score, left, right, text.size()});
    if (piece.type == PieceType::unused) parts_[text] = {symbol(left).text, symbol(right).text};
  }

  // Unused pieces are joined on the way to others; those that are left come apart again.
  void write(std::string_view text, int depth, std::vector<Segment>& out) const {
    const Token token = vocabulary_.find_segment(text);
    const bool is_unused = vocabulary_.has(token) && vocabulary_[token].type == PieceType::unused;
    const auto parts = is_unused ? parts_.find(text) : parts_.end();
    if (!is_unused || depth > kMostDepth) {
      out.push_back({text, token});
    } else if (parts == parts_.end()) {
      out.push_back({text, vocabulary_.unknown()});
    } else {
      write(parts->second.first, depth + 1, out);
      write(parts->second.second, depth + 1, out);
    }
  }

  const Vocabulary& vocabulary_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Joint, std::vector<Joint>, IsLater> joints_;
  std::unordered_map<std::string_view, std::pair<std::string_view, std::string_view>> parts_;
};

class BpeSegmenter final : public Segmenter {
 public:
  explicit BpeSegmenter(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
  void segment(std::string_view text, std::vector<Segment>& out) const override {
    while (!text.empty()) {
      const std::size_t bytes = vocabulary_.joins_words() ? text.size() : word_bytes(text);
      Joiner joiner(vocabulary_, text.substr(0, bytes));
      joiner.join_all();
      joiner.write_to(out);
      text.remove_prefix(bytes);
    }
  }

 private:
  const Vocabulary& vocabulary_;
};

}  // namespace

std::unique_ptr<Segmenter> bpe_segmenter(const Vocabulary& vocabulary) {
  return std::make_unique<BpeSegmenter>(vocabulary);
}

}  // namespace tessera::tokenizer::sentencepiece
