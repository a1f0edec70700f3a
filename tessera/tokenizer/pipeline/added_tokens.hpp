// Tokens beside the model's own, such as <|endoftext|>, which are looked for in the text before anything
// else.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/tokenizer/bpe/token.hpp"
#include "tessera/tokenizer/split/code_bits.hpp"

namespace tessera::tokenizer {

struct AddedToken {
  Token id = 0;
  std::string content;
  bool single_word = false;  // not inside of a word
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // and after it
  bool normalized = false;   // is looked for in the normalized text
  bool special = false;      // is left out where special tokens are
};

// Finds some of them: at each place the longest, from left to right. Const, and shared by threads.
class AddedTokenFinder {
 public:
  // `text` is what is looked for: the content, or its normalized form.
  void add(std::string_view text, const AddedToken& token);

  using Take = std::function<void(std::string_view text, std::optional<Token> token)>;
  // Calls `take` for each token and each text between, in order; never for an empty text.
  void split(std::string_view text, const Take& take) const;

 private:
  struct Found {
    std::size_t end = 0;
    int token = -1;  // in tokens_; -1: none
  };
  Found longest_at(std::string_view text, std::size_t at) const;
  bool is_single_word(std::string_view text, std::size_t begin, std::size_t end) const;

  std::vector<AddedToken> tokens_;
  std::array<bool, 256> is_first_byte_{};
  // A trie: node and byte to node; the root is 0.
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;
  std::vector<int> token_of_node_ = {-1};
  CodeBits word_{ranges_of(CodeSet::word)}, space_{ranges_of(CodeSet::space)};
};

}  // namespace tessera::tokenizer
