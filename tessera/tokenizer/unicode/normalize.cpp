#include "tessera/tokenizer/unicode/normalize.hpp"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tessera/tokenizer/unicode/utf8.hpp"

namespace tessera::tokenizer {

namespace {

// Each entry: a code point, how many it decomposes into, and those, fully decomposed.
constexpr char32_t kCanonical[] = {
#include "tessera/tokenizer/unicode/canonical.inc"
};
constexpr char32_t kCompatible[] = {
#include "tessera/tokenizer/unicode/compatible.inc"
};
struct Composition {
  char32_t first, second, composed;
};
constexpr Composition kCompositions[] = {
#include "tessera/tokenizer/unicode/compositions.inc"
};
struct CombiningRange {
  char32_t first, last;
  std::uint8_t combining_class;
};
constexpr CombiningRange kCombining[] = {
#include "tessera/tokenizer/unicode/combining.inc"
};

// Hangul syllables are composed by arithmetic (The Unicode Standard, section 3.12).
constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11A7;
constexpr char32_t kNumLeads = 19, kNumVowels = 21, kNumTails = 28;
constexpr char32_t kNumSyllables = kNumLeads * kNumVowels * kNumTails;

bool lies_in(char32_t code, char32_t first, char32_t count) { return code >= first && code - first < count; }

std::uint64_t pair_key(char32_t first, char32_t second) {
  return static_cast<std::uint64_t>(first) << 32 | second;
}

struct NormalTables {
  std::unordered_map<char32_t, std::u32string_view> canonical, compatible;
  std::unordered_map<std::uint64_t, char32_t> compositions;
  std::vector<std::uint8_t> combining_class;
  // Code points that some form may change, or that may change or move beside others.
  std::vector<bool> is_touched;

  NormalTables() : combining_class(kNumCodePoints), is_touched(kNumCodePoints) {
    const auto read = [&](std::u32string_view list, auto& into) {
      while (!list.empty()) {
        into.emplace(list[0], list.substr(2, list[1]));
        is_touched[list[0]] = true;
        list.remove_prefix(2 + list[1]);
      }
    };
    read({kCanonical, std::size(kCanonical)}, canonical);
    read({kCompatible, std::size(kCompatible)}, compatible);
    for (const auto& [first, second, composed] : kCompositions) {
      compositions.emplace(pair_key(first, second), composed);
      is_touched[second] = true;
    }
    for (const auto& [first, last, value] : kCombining)
      for (char32_t code = first; code <= last; ++code) {
        combining_class[code] = value;
        is_touched[code] = true;
      }
    for (char32_t code = kLeads; code < kLeads + 0x100; ++code) is_touched[code] = true;
    for (char32_t code = kSyllables; code < kSyllables + kNumSyllables; ++code) is_touched[code] = true;
  }

  char32_t composed(char32_t first, char32_t second) const {
    if (lies_in(first, kLeads, kNumLeads) && lies_in(second, kVowels, kNumVowels))
      return kSyllables + ((first - kLeads) * kNumVowels + (second - kVowels)) * kNumTails;
    if (lies_in(first, kSyllables, kNumSyllables) && (first - kSyllables) % kNumTails == 0 &&
        lies_in(second, kTails + 1, kNumTails - 1))
      return first + (second - kTails);
    const auto found = compositions.find(pair_key(first, second));
    return found == compositions.end() ? 0 : found->second;
  }
};

const NormalTables& normal_tables() {
  static const NormalTables kTables;
  return kTables;
}

void decompose(char32_t code, bool compatible, std::u32string& out) {
  if (lies_in(code, kSyllables, kNumSyllables)) {
    const char32_t index = code - kSyllables, tail = index % kNumTails;
    out.push_back(kLeads + index / (kNumVowels * kNumTails));
    out.push_back(kVowels + index % (kNumVowels * kNumTails) / kNumTails);
    if (tail != 0) out.push_back(kTails + tail);
    return;
  }
  const NormalTables& tables = normal_tables();
  if (compatible)
    if (const auto found = tables.compatible.find(code); found != tables.compatible.end()) {
      out += found->second;
      return;
    }
  if (const auto found = tables.canonical.find(code); found != tables.canonical.end())
    out += found->second;
  else
    out.push_back(code);
}

// Sorts every run of marks by combining class, equal ones in their order.
void reorder(std::u32string& codes) {
  const auto& classes = normal_tables().combining_class;
  for (auto at = codes.begin(); at != codes.end();) {
    const auto is_mark = [&](char32_t code) { return classes[code] != 0; };
    const auto begin = std::find_if(at, codes.end(), is_mark);
    at = std::find_if_not(begin, codes.end(), is_mark);
    std::stable_sort(begin, at, [&](char32_t a, char32_t b) { return classes[a] < classes[b]; });
  }
}

// Joins a starter with what follows it and is not blocked from it.
void compose(std::u32string& codes) {
  const NormalTables& tables = normal_tables();
  std::size_t kept = 0, starter = std::u32string::npos;
  int last_class = -1;  // of what was kept after the starter; -1: nothing
  for (const char32_t code : codes) {
    const int its_class = tables.combining_class[code];
    if (starter != std::u32string::npos && last_class < its_class) {
      if (const char32_t joined = tables.composed(codes[starter], code)) {
        codes[starter] = joined;
        continue;
      }
    }
    if (its_class == 0) {
      starter = kept;
      last_class = -1;
    } else {
      last_class = its_class;
    }
    codes[kept++] = code;
  }
  codes.resize(kept);
}

void append_normalized(std::string_view text, NormalForm form, std::string& out) {
  std::u32string codes;
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  for (std::size_t at = 0; at < text.size();) {
    const auto [code, bytes] = code_point_at(text, at);
    decompose(code, compatible, codes);
    at += bytes;
  }
  reorder(codes);
  if (form == NormalForm::nfc || form == NormalForm::nfkc) compose(codes);
  for (const char32_t code : codes) append_utf8(code, out);
}

}  // namespace

std::string normalized(std::string_view text, NormalForm form) {
  const auto& is_touched = normal_tables().is_touched;
  std::string out;
  out.reserve(text.size());
  // ASCII begins a stretch that depends on nothing before it: only stretches with something to change are
  // worked on.
  std::size_t begin = 0, at = 0;
  bool touched = false;
  const auto flush = [&] {
    const auto stretch = text.substr(begin, at - begin);
    if (touched)
      append_normalized(stretch, form, out);
    else
      out += stretch;
    begin = at;
    touched = false;
  };
  while (at < text.size()) {
    const auto [code, bytes] = code_point_at(text, at);
    if (code < 0x80 && touched) flush();
    // What follows unchanged ASCII may join with its last character, so that one stays in hand.
    if (code >= 0x80 && is_touched[code] && !touched) {
      const std::size_t here = at;
      std::size_t from = at;
      while (from > begin) {
        from = before(text, from);
        if (static_cast<unsigned char>(text[from]) < 0x80) break;
      }
      at = from;
      flush();
      at = here;
      touched = true;
    }
    at += bytes;
  }
  flush();
  return out;
}

}  // namespace tessera::tokenizer
