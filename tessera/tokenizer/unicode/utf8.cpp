#include "tessera/tokenizer/unicode/utf8.hpp"

#include <algorithm>
#include <cstring>

namespace tessera::tokenizer {

namespace {

struct Lead {
  std::size_t bytes = 0;                    // of the code point; 0: no code point begins so
  unsigned char least = 0x80, most = 0xBF;  // of the second byte
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2 || byte > 0xF4) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};  // no surrogates
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {4};
}

struct Sequence {
  std::size_t bytes = 1;  // of the code point, or of its beginning
  bool is_whole = false;
};

// What stands at `at`.
Sequence sequence_at(std::string_view text, std::size_t at) {
  const Lead lead = lead_of(static_cast<unsigned char>(text[at]));
  if (lead.bytes == 0) return {1, false};
  std::size_t i = 1;
  for (; i < lead.bytes && at + i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[at + i]);
    const bool fits = i == 1 ? byte >= lead.least && byte <= lead.most : (byte & 0xC0) == 0x80;
    if (!fits) return {i, false};
  }
  return {i, i == lead.bytes};
}

bool is_ascii8(const char* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return (word & 0x8080808080808080) == 0;
}

}  // namespace

void append_utf8(char32_t code, std::string& out) {
  const auto add = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      add(0xE0 | code >> 12);
    } else {
      add(0xF0 | code >> 18);
      add(0x80 | (code >> 12 & 0x3F));
    }
    add(0x80 | (code >> 6 & 0x3F));
  }
  add(0x80 | (code & 0x3F));
}

std::string to_utf8(char32_t code) {
  std::string out;
  append_utf8(code, out);
  return out;
}

std::size_t valid_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (at + 8 <= text.size() && is_ascii8(text.data() + at)) {
      at += 8;
      continue;
    }
    // Up to here ASCII was looked at by eights; a few code points at a time keep other text fast as well.
    for (int i = 0; i < 8 && at < text.size(); ++i) {
      const Sequence found = sequence_at(text, at);
      if (!found.is_whole) return at;
      at += found.bytes;
    }
  }
  return at;
}

std::string repaired(std::string_view text) {
  std::string out;
  while (true) {
    const std::size_t valid = valid_prefix(text);
    out += text.substr(0, valid);
    if (valid == text.size()) return out;
    append_utf8(kReplacement, out);
    text.remove_prefix(valid + sequence_at(text, valid).bytes);
  }
}

std::size_t unfinished_suffix(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const std::size_t at = text.size() - back;
    if ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) continue;
    const Sequence found = sequence_at(text, at);
    const bool is_unfinished =
        !found.is_whole && found.bytes == back && lead_of(static_cast<unsigned char>(text[at])).bytes > back;
    return is_unfinished ? back : 0;
  }
  return 0;
}

}  // namespace tessera::tokenizer
