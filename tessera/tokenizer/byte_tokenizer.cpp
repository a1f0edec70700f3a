#include "tessera/tokenizer/byte_tokenizer.hpp"

#include "tessera/tokenizer/unicode/utf8.hpp"

namespace tessera::tokenizer {

namespace {

constexpr Token kNumBytes = 256;

class ByteEncoder final : public Encoder {
 public:
  void encode(std::string_view text, std::vector<Token>& tokens) override {
    tokens.reserve(tokens.size() + text.size());
    for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  }
};

std::string byte_text(Token token) {
  return token >= 0 && token < kNumBytes ? std::string(1, static_cast<char>(token)) : std::string();
}

// Gives the very bytes, valid or not; only a character that may still become whole waits.
class ByteDecoder final : public Decoder {
 public:
  std::string push(Token token) override {
    kept_ += byte_text(token);
    const std::size_t sure = kept_.size() - unfinished_suffix(kept_);
    std::string out = kept_.substr(0, sure);
    kept_.erase(0, sure);
    return out;
  }
  std::string finish() override { return std::move(kept_); }

 private:
  std::string kept_;
};

class ByteTokenizer final : public Tokenizer {
 public:
  std::int64_t vocabulary_size() const override { return kNumBytes; }
  std::unique_ptr<Encoder> encoder() const override { return std::make_unique<ByteEncoder>(); }
  std::string decode(std::span<const Token> tokens, bool) const override {
    std::string out;
    for (const Token token : tokens) out += byte_text(token);
    return out;
  }
  std::unique_ptr<Decoder> decoder() const override { return std::make_unique<ByteDecoder>(); }
  std::optional<Token> token_of(std::string_view text) const override {
    if (text.size() != 1) return std::nullopt;
    return static_cast<unsigned char>(text[0]);
  }
  std::string text_of(Token token) const override { return byte_text(token); }
};

}  // namespace

std::unique_ptr<Tokenizer> byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

}  // namespace tessera::tokenizer
