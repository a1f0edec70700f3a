// Turns text into the numbers that a model reads, and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/tokenizer/bpe/token.hpp"

namespace tessera::tokenizer {

// Encodes text after text; holds one thread's cache. Its tokenizer must outlive it.
class Encoder {
 public:
  virtual ~Encoder() = default;
  // Appends the tokens of a text. Bytes that are no UTF-8 count as U+FFFD, unless tokens are bytes.
  virtual void encode(std::string_view text, std::vector<Token>& tokens) = 0;
};

// Decodes one text token by token. Its tokenizer must outlive it.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // The text that is sure by now and was not returned before: half a character waits for its other half.
  virtual std::string push(Token token) = 0;
  // What still waited. All that was returned is then what Tokenizer::decode makes of the tokens.
  virtual std::string finish() = 0;
};

// Const, and shared by threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // The highest token + 1.
  virtual std::int64_t vocabulary_size() const = 0;
  virtual std::unique_ptr<Encoder> encoder() const = 0;
  // Tokens that are none are left out, and special ones if asked for.
  virtual std::string decode(std::span<const Token> tokens, bool skip_special) const = 0;
  virtual std::unique_ptr<Decoder> decoder() const = 0;
  // A token by its text, such as "<|endoftext|>".
  virtual std::optional<Token> token_of(std::string_view text) const = 0;
  // As the vocabulary has it, such as "Ġthe"; empty if there is no such token.
  virtual std::string text_of(Token token) const = 0;
  // What stands before and after a text where special tokens are added, such as <|begin_of_text|>. Encoders
  // never add them.
  virtual std::vector<Token> prefix() const { return {}; }
  virtual std::vector<Token> suffix() const { return {}; }
};

// A tokenizer.json, a folder with one, a SentencePiece .model, or the word "bytes". Throws UserError if it
// can't be read, or has components that Tessera does not know.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path);

}  // namespace tessera::tokenizer
