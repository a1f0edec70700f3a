#include "tessera/tokenizer/sentencepiece/prefix_trie.hpp"

#include <algorithm>

namespace tessera::tokenizer::sentencepiece {

PrefixTrie::PrefixTrie(std::vector<std::pair<std::string_view, Token>> words) {
  std::ranges::sort(words);
  // The words below each node, which begin with the same bytes.
  struct Range {
    std::size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, words.size(), 0}};
  nodes_.emplace_back();
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    auto [at, end, depth] = ranges[node];
    if (at < end && words[at].first.size() == depth) nodes_[node].token = words[at++].second;
    nodes_[node].first = static_cast<std::uint32_t>(nodes_.size());
    while (at < end) {
      const char byte = words[at].first[depth];
      std::size_t next = at + 1;
      while (next < end && words[next].first[depth] == byte) ++next;
      if (node == 0) of_root_[static_cast<unsigned char>(byte)] = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back({.byte = static_cast<unsigned char>(byte)});
      ranges.push_back({at, next, depth + 1});
      ++nodes_[node].children;
      at = next;
    }
  }
}

std::uint32_t PrefixTrie::child(std::uint32_t node, unsigned char byte) const {
  if (node == 0) return of_root_[byte];
  const auto begin = nodes_.begin() + nodes_[node].first, end = begin + nodes_[node].children;
  const auto found =
      std::lower_bound(begin, end, byte, [](const Node& x, unsigned char y) { return x.byte < y; });
  return found != end && found->byte == byte ? static_cast<std::uint32_t>(found - nodes_.begin()) : 0;
}

std::size_t PrefixTrie::longest(std::string_view text) const {
  std::size_t out = 0;
  find(text, [&](std::size_t bytes, Token) { out = bytes; });
  return out;
}

}  // namespace tessera::tokenizer::sentencepiece
