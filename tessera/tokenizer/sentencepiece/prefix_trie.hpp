// Finds the words of a set that a text begins with.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/tokenizer/bpe/token.hpp"

namespace tessera::tokenizer::sentencepiece {

class PrefixTrie {
 public:
  // Words are different and not empty.
  explicit PrefixTrie(std::vector<std::pair<std::string_view, Token>> words = {});

  // Calls found(bytes, token) for each word that the text begins with, the shortest first.
  template <typename Found>
  void find(std::string_view text, const Found& found) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node == 0) return;
      if (nodes_[node].token != kNoToken) found(i + 1, nodes_[node].token);
    }
  }

  // Bytes of the longest word that the text begins with, or 0.
  std::size_t longest(std::string_view text) const;

 private:
  struct Node {
    Token token = kNoToken;   // of the word that ends here
    std::uint32_t first = 0;  // of its children, which stand side by side in the order of their bytes
    std::uint16_t children = 0;
    unsigned char byte = 0;  // that leads here
  };
  // 0 if there is none.
  std::uint32_t child(std::uint32_t node, unsigned char byte) const;

  std::vector<Node> nodes_;
  std::array<std::uint32_t, 256> of_root_{};
};

}  // namespace tessera::tokenizer::sentencepiece
