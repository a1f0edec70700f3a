#include "tessera/tokenizer/sentencepiece_tokenizer.hpp"

#include "tessera/tokenizer/sentencepiece/segmenter.hpp"
#include "tessera/tokenizer/sentencepiece/text_rules.hpp"
#include "tessera/tokenizer/unicode/utf8.hpp"

namespace tessera::tokenizer {

namespace {

using sentencepiece::kMark;
using sentencepiece::PieceType;

// All that encoders and decoders share.
struct SentencePieceParts {
  SentencePieceParts(sentencepiece::Model model, const std::string& where)
      : vocabulary(std::move(model.pieces), model.byte_fallback, where),
        changer(model.before, &vocabulary.user_defined(), where),
        segmenter(sentencepiece::make_segmenter(model.algorithm, vocabulary)),
        byte_fallback(model.byte_fallback),
        unknown_text(std::move(model.unknown_text)),
        drops_first_mark(model.before.adds_mark || model.before.removes_extra_spaces),
        drops_all_first_marks(model.before.removes_extra_spaces) {
    if (model.after) after.emplace(*std::move(model.after), nullptr, where);
    if (const auto found = vocabulary.find(model.begin_piece))
      if (vocabulary[*found].type == PieceType::control) begin = *found;
  }

  sentencepiece::Vocabulary vocabulary;
  sentencepiece::TextChanger changer;
  std::optional<sentencepiece::TextChanger> after;  // of a decoded text
  std::unique_ptr<sentencepiece::Segmenter> segmenter;
  bool byte_fallback;
  std::string unknown_text;
  bool drops_first_mark, drops_all_first_marks;
  Token begin = kNoToken;
};

class SentencePieceEncoder final : public Encoder {
 public:
  explicit SentencePieceEncoder(const SentencePieceParts& parts) : parts_(parts) {}
  void encode(std::string_view text, std::vector<Token>& tokens) override {
    const std::string changed = parts_.changer.changed(text);
    segments_.clear();
    parts_.segmenter->segment(changed, segments_);
    bool after_unknown = false;  // a row of unknown segments is one token
    for (const sentencepiece::Segment& segment : segments_) {
      const bool is_unknown = segment.token == parts_.vocabulary.unknown();
      if (is_unknown && parts_.byte_fallback)
        for (const char c : segment.text)
          tokens.push_back(parts_.vocabulary.of_byte(static_cast<unsigned char>(c)));
      else if (!is_unknown || !after_unknown)
        tokens.push_back(segment.token);
      after_unknown = is_unknown;
    }
  }

 private:
  const SentencePieceParts& parts_;
  std::vector<sentencepiece::Segment> segments_;
};

class SentencePieceDecoder final : public Decoder {
 public:
  explicit SentencePieceDecoder(const SentencePieceParts& parts) : parts_(parts) {}
  std::string push(Token token) override {
    if (!parts_.vocabulary.has(token)) return {};
    const sentencepiece::Piece& piece = parts_.vocabulary[token];
    if (piece.type == PieceType::byte) {
      bytes_ += static_cast<char>(*sentencepiece::byte_of(piece.text));
      return given(sure_bytes(false));
    }
    std::string out = sure_bytes(true);
    if (!out.empty()) is_first_ = false;
    if (piece.type != PieceType::control) out += text_of(piece);
    return given(std::move(out));
  }
  std::string finish() override {
    std::string out = given(sure_bytes(true));
    return parts_.after ? parts_.after->changed(held_back_) : out;
  }

 private:
  // The text of the bytes in a row: characters, and U+FFFD for each byte that begins none. What may still
  // become a character waits, unless this is the end of the row.
  std::string sure_bytes(bool is_end) {
    std::string out;
    while (!bytes_.empty()) {
      const std::size_t valid = valid_prefix(bytes_);
      out += bytes_.substr(0, valid);
      bytes_.erase(0, valid);
      if (bytes_.empty() || (!is_end && unfinished_suffix(bytes_) == bytes_.size())) break;
      out += to_utf8(kReplacement);
      bytes_.erase(0, 1);
    }
    return out;
  }

  // With spaces for marks; the first mark stands for no space of the text.
  std::string text_of(const sentencepiece::Piece& piece) {
    std::string_view text = piece.text;
    const bool drops = is_first_ && parts_.drops_first_mark && text.starts_with(kMark);
    if (drops) text.remove_prefix(kMark.size());
    std::string out;
    if (piece.type == PieceType::unknown)
      out = parts_.unknown_text;
    else
      out = with_spaces(text);
    if (!out.empty() || (drops && !parts_.drops_all_first_marks)) is_first_ = false;
    return out;
  }

  static std::string with_spaces(std::string_view text) {
    std::string out;
    for (std::size_t at; (at = text.find(kMark)) != text.npos; text.remove_prefix(at + kMark.size()))
      out += std::string(text.substr(0, at)) + ' ';
    return out += text;
  }

  // Rules for a decoded text are for all of it.
  std::string given(std::string text) {
    if (!text.empty()) is_first_ = false;
    if (!parts_.after) return text;
    held_back_ += text;
    return {};
  }

  const SentencePieceParts& parts_;
  bool is_first_ = true;  // nothing that has a text came before
  std::string bytes_, held_back_;
};

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string_view content, const std::string& path)
      : parts_(sentencepiece::parse_model(content, path), path) {}

  std::int64_t vocabulary_size() const override { return parts_.vocabulary.size(); }
  std::unique_ptr<Encoder> encoder() const override { return std::make_unique<SentencePieceEncoder>(parts_); }
  std::unique_ptr<Decoder> decoder() const override { return std::make_unique<SentencePieceDecoder>(parts_); }
  // Control pieces, the special ones, never have a text.
  std::string decode(std::span<const Token> tokens, bool) const override {
    SentencePieceDecoder decoder(parts_);
    std::string out;
    for (const Token token : tokens) out += decoder.push(token);
    return out + decoder.finish();
  }
  std::optional<Token> token_of(std::string_view text) const override { return parts_.vocabulary.find(text); }
  std::string text_of(Token token) const override {
    return parts_.vocabulary.has(token) ? parts_.vocabulary[token].text : std::string();
  }
  std::vector<Token> prefix() const override {
    return parts_.begin == kNoToken ? std::vector<Token>() : std::vector<Token>{parts_.begin};
  }

 private:
  SentencePieceParts parts_;
};

}  // namespace

std::unique_ptr<Tokenizer> parse_sentencepiece(std::string_view content, const std::string& path) {
  return std::make_unique<SentencePieceTokenizer>(content, path);
}

}  // namespace tessera::tokenizer
