#include "tessera/tokenizer/sentencepiece_tokenizer.hpp"

#include <sentencepiece_processor.h>

#include "tessera/base/error.hpp"

namespace tessera::tokenizer {

namespace {

using sentencepiece::SentencePieceProcessor;

class SentencePieceEncoder final : public Encoder {
 public:
  explicit SentencePieceEncoder(const SentencePieceProcessor& processor) : processor_(processor) {}
  void encode(std::string_view text, std::vector<Token>& tokens) override {
    std::vector<int> pieces;
    const auto status = processor_.Encode({text.data(), text.size()}, &pieces);
    if (!status.ok()) throw UserError(cat("SentencePiece can't encode a text: ", status.ToString()));
    tokens.insert(tokens.end(), pieces.begin(), pieces.end());
  }

 private:
  const SentencePieceProcessor& processor_;
};

// The library decodes whole lists. Of a list that grows, all but a last unfinished character is sure: a row
// of bytes at the end may still become one.
class SentencePieceDecoder final : public Decoder {
 public:
  explicit SentencePieceDecoder(const SentencePieceProcessor& processor) : processor_(processor) {}
  std::string push(Token token) override {
    if (token < 0 || token >= processor_.GetPieceSize()) return {};
    tokens_.push_back(token);
    if (processor_.IsByte(token)) return {};
    std::string out = rest();
    given_ += out.size();
    // The next one is decoded after one that has a text, without which it would lose its space.
    const std::string last = text_of({token});
    if (!last.empty()) {
      tokens_ = {token};
      given_ = last.size();
    }
    return out;
  }
  std::string finish() override { return rest(); }

 private:
  std::string text_of(const std::vector<int>& tokens) const {
    std::string out;
    const auto status = processor_.Decode(tokens, &out);
    TESSERA_CHECK(status.ok(), "SentencePiece can't decode its own pieces: ", status.ToString());
    return out;
  }
  std::string rest() const { return text_of(tokens_).substr(given_); }

  const SentencePieceProcessor& processor_;
  std::vector<int> tokens_;
  std::size_t given_ = 0;  // bytes of their text
};

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string_view content, const std::string& path) {
    const auto status = processor_.LoadFromSerializedProto({content.data(), content.size()});
    if (!status.ok()) throw UserError(cat(path, ": SentencePiece refuses it: ", status.ToString()));
  }

  std::int64_t vocabulary_size() const override { return processor_.GetPieceSize(); }
  std::unique_ptr<Encoder> encoder() const override {
    return std::make_unique<SentencePieceEncoder>(processor_);
  }
  std::unique_ptr<Decoder> decoder() const override {
    return std::make_unique<SentencePieceDecoder>(processor_);
  }
  std::string decode(std::span<const Token> tokens, bool skip_special) const override {
    std::vector<int> kept;
    for (const Token token : tokens)
      if (token >= 0 && token < vocabulary_size() && !(skip_special && processor_.IsControl(token)))
        kept.push_back(token);
    std::string out;
    const auto status = processor_.Decode(kept, &out);
    TESSERA_CHECK(status.ok(), "SentencePiece can't decode its own pieces: ", status.ToString());
    return out;
  }
  std::optional<Token> token_of(std::string_view text) const override {
    const Token token = processor_.PieceToId({text.data(), text.size()});
    if (text_of(token) != text) return std::nullopt;
    return token;
  }
  std::string text_of(Token token) const override {
    return token >= 0 && token < vocabulary_size() ? std::string(processor_.IdToPiece(token)) : std::string();
  }
  std::vector<Token> prefix() const override {
    return processor_.bos_id() < 0 ? std::vector<Token>() : std::vector<Token>{processor_.bos_id()};
  }

 private:
  SentencePieceProcessor processor_;
};

}  // namespace

std::unique_ptr<Tokenizer> parse_sentencepiece(std::string_view content, const std::string& path) {
  return std::make_unique<SentencePieceTokenizer>(content, path);
}

}  // namespace tessera::tokenizer
