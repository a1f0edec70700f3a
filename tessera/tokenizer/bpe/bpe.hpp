// Byte pair encoding: a word becomes its bytes or code points, and of all neighbours that merge, those of the
// lowest rank do, the leftmost first, until none are left.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/tokenizer/bpe/byte_map.hpp"
#include "tessera/tokenizer/bpe/merge_table.hpp"
#include "tessera/tokenizer/bpe/token.hpp"

namespace tessera::tokenizer {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using Vocabulary = std::unordered_map<std::string, Token, StringHash, std::equal_to<>>;

struct MergePair {
  Token left = 0, right = 0, into = 0;
  bool operator==(const MergePair&) const = default;
};

struct BpeParts {
  // By the bytes that they stand for.
  Vocabulary tokens;
  // In the order of their ranks.
  std::vector<MergePair> merges;
  bool by_bytes = true;  // a word begins as bytes, otherwise as code points
  // Of code points that are no token: byte by byte if all of these are there (256, or none) ..
  std::vector<Token> byte_tokens;
  // .. or else the unknown one, one for all in a row if they are fused; without one they are left out.
  Token unknown = kNoToken;
  bool fuse_unknown = false;
  bool ignore_merges = false;  // a word that is a token is that token, whatever the merges say
};

// Const, and shared by threads.
class Bpe {
 public:
  explicit Bpe(BpeParts parts);

  // What a thread works with.
  struct Scratch {
    std::vector<Token> tokens;
    std::vector<std::uint64_t> merges;
    std::vector<std::int32_t> previous, next;
    std::vector<std::uint64_t> heap;
  };
  // Appends the tokens of a word of valid UTF-8.
  void encode(std::string_view word, Scratch& scratch, std::vector<Token>& out) const;

  // Whether each merge stays within the words that begin at `mark` after another code point: a text may then
  // be cut there.
  bool can_cut_before(char32_t mark) const;

 private:
  void begin_with(std::string_view word, Scratch& scratch) const;
  void begin_with_bytes(std::string_view word, Scratch& scratch) const;
  void find_merges(Scratch& scratch) const;
  Token first_token(char32_t code) const;
  std::uint64_t merge_of(Token left, Token right) const;
  void merge_short(Scratch& scratch) const;
  void merge_long(Scratch& scratch) const;

  BpeParts parts_;
  MergeTable merges_;
  std::vector<Token> singles_;              // by byte or code point
  std::vector<std::uint64_t> byte_merges_;  // of two bytes, by both
  ByteMap words_;                           // all tokens, if merges are ignored
};

}  // namespace tessera::tokenizer
