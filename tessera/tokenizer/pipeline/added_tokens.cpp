#include "tessera/tokenizer/pipeline/added_tokens.hpp"

#include <algorithm>

namespace tessera::tokenizer {

namespace {

std::uint64_t edge(std::uint32_t node, char byte) {
  return static_cast<std::uint64_t>(node) << 8 | static_cast<unsigned char>(byte);
}

}  // namespace

void AddedTokenFinder::add(std::string_view text, const AddedToken& token) {
  if (text.empty()) return;
  std::uint32_t node = 0;
  for (const char byte : text) {
    const auto [found, is_new] =
        edges_.emplace(edge(node, byte), static_cast<std::uint32_t>(token_of_node_.size()));
    if (is_new) token_of_node_.push_back(-1);
    node = found->second;
  }
  is_first_byte_[static_cast<unsigned char>(text[0])] = true;
  token_of_node_[node] = static_cast<int>(tokens_.size());
  tokens_.push_back(token);
}

AddedTokenFinder::Found AddedTokenFinder::longest_at(std::string_view text, std::size_t at) const {
  Found out;
  std::uint32_t node = 0;
  for (std::size_t end = at; end < text.size();) {
    const auto next = edges_.find(edge(node, text[end]));
    if (next == edges_.end()) break;
    node = next->second;
    ++end;
    if (token_of_node_[node] >= 0) out = {end, token_of_node_[node]};
  }
  return out;
}

bool AddedTokenFinder::is_single_word(std::string_view text, std::size_t begin, std::size_t end) const {
  const bool begins = begin == 0 || !word_.has(code_point_at(text, before(text, begin)).value);
  const bool ends = end == text.size() || !word_.has(code_point_at(text, end).value);
  return begins && ends;
}

void AddedTokenFinder::split(std::string_view text, const Take& take) const {
  std::size_t done = 0;
  for (std::size_t at = 0; !tokens_.empty() && at < text.size();) {
    if (!is_first_byte_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const Found found = longest_at(text, at);
    if (found.token < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(found.token)];
    std::size_t begin = at, end = found.end;
    at = found.end;
    if (token.single_word && !is_single_word(text, begin, end)) continue;
    if (token.lstrip) {
      while (begin > 0 && space_.has(code_point_at(text, before(text, begin)).value))
        begin = before(text, begin);
      begin = std::max(begin, done);
    }
    if (token.rstrip)
      while (end < text.size() && space_.has(code_point_at(text, end).value))
        end += code_point_at(text, end).bytes;
    if (done < begin) take(text.substr(done, begin - done), std::nullopt);
    take(text.substr(begin, end - begin), token.id);
    done = end;
  }
  if (done < text.size()) take(text.substr(done), std::nullopt);
}

}  // namespace tessera::tokenizer
