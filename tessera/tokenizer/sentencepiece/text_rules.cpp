#include "tessera/tokenizer/sentencepiece/text_rules.hpp"

#include <utility>

#include "tessera/tokenizer/unicode/growth.hpp"
#include "tessera/tokenizer/unicode/utf8.hpp"

namespace tessera::tokenizer::sentencepiece {
namespace {

constexpr std::string_view kReplaced = "\uFFFD";

// Bytes of the code point that the text begins with; 0 if they are not UTF-8.
std::size_t first_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  return valid_prefix(text.substr(0, bytes)) == bytes ? bytes : 0;
}

}  // namespace

TextChanger::TextChanger(TextRules rules, const PrefixTrie* kept, const std::string& where)
    : rules_(std::move(rules)), char_map_(std::exchange(rules_.char_map, {}), where), kept_(kept) {}

CharMap::Rule TextChanger::next(std::string_view text) const {
  if (const std::size_t bytes = kept_ ? kept_->longest(text) : 0; bytes > 0)
    return {bytes, text.substr(0, bytes)};
  if (const CharMap::Rule rule = char_map_.longest(text); rule.bytes > 0) return rule;
  const std::size_t bytes = first_bytes(text);
  return bytes > 0 ? CharMap::Rule{bytes, text.substr(0, bytes)} : CharMap::Rule{1, kReplaced};
}

std::string TextChanger::changed(std::string_view text) const {
  std::string out;
  const GrowthLimit limit(text.size());
  const std::string_view space = rules_.escapes_spaces ? kMark : " ";
  while (rules_.removes_extra_spaces && !text.empty()) {
    const CharMap::Rule first = next(text);
    if (first.text != " ") break;
    text.remove_prefix(first.bytes);
  }
  if (text.empty()) return out;
  out.reserve(text.size() + text.size() / 2);
  if (rules_.adds_mark && !rules_.mark_at_end) out += space;
  bool follows_space = rules_.removes_extra_spaces;
  while (!text.empty()) {
    CharMap::Rule rule = next(text);
    text.remove_prefix(rule.bytes);
    while (follows_space && rule.text.starts_with(' ')) rule.text.remove_prefix(1);
    if (rule.text.empty()) continue;
    for (const char c : rule.text) {
      if (c == ' ')
        out += space;
      else
        out += c;
    }
    follows_space = rules_.removes_extra_spaces && rule.text.ends_with(' ');
    limit.check(out.size());
  }
  while (rules_.removes_extra_spaces && out.ends_with(space)) out.resize(out.size() - space.size());
  if (rules_.adds_mark && rules_.mark_at_end) out += space;
  return out;
}

}  // namespace tessera::tokenizer::sentencepiece
