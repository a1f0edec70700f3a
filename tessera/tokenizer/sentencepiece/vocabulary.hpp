// The pieces of a SentencePiece model, found by their texts.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/tokenizer/bpe/token.hpp"
#include "tessera/tokenizer/sentencepiece/model_file.hpp"
#include "tessera/tokenizer/sentencepiece/prefix_trie.hpp"

namespace tessera::tokenizer::sentencepiece {

class Vocabulary {
 public:
  // Throws UserError, which begins with `where`, unless texts are different, one piece or the bytes stand for
  // what is unknown, and the bytes are all there.
  Vocabulary(std::vector<Piece> pieces, bool byte_fallback, const std::string& where);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  Token size() const { return static_cast<Token>(pieces_.size()); }
  bool has(Token token) const { return token >= 0 && token < size(); }
  const Piece& operator[](Token token) const { return pieces_[static_cast<std::size_t>(token)]; }
  // The piece with this text, of any type.
  std::optional<Token> find(std::string_view text) const;
  // The piece with this text if texts are segmented into it, else unknown().
  Token find_segment(std::string_view text) const;
  // kNoToken if bytes stand for what is unknown.
  Token unknown() const { return unknown_; }
  Token of_byte(unsigned char byte) const { return bytes_[byte]; }
  // Whether what is made of a word may depend on its neighbors: a mark stands within a piece, or pieces are
  // unused, which come apart again the way they were joined last.
  bool joins_words() const { return joins_words_; }
  // Those that texts are segmented into, and those of them that always stay whole.
  const PrefixTrie& segments() const { return segments_; }
  const PrefixTrie& user_defined() const { return user_defined_; }

 private:
  using Tokens = std::unordered_map<std::string_view, Token>;
  void add(Token token, const std::string& where);

  std::vector<Piece> pieces_;
  Tokens segment_tokens_, other_tokens_;
  Token unknown_ = kNoToken;
  std::array<Token, 256> bytes_;
  bool joins_words_ = false;
  PrefixTrie segments_, user_defined_;
};

// The byte that a piece such as <0x0A> stands for.
std::optional<unsigned char> byte_of(std::string_view piece);

}  // namespace tessera::tokenizer::sentencepiece
