#include "tessera/tokenizer/bpe/bpe.hpp"

#include <algorithm>
#include <array>

#include "tessera/base/error.hpp"
#include "tessera/tokenizer/unicode/utf8.hpp"

namespace tessera::tokenizer {

namespace {

// Up to so many symbols the next merge is looked for in a plain list.
constexpr std::size_t kShort = 96;
constexpr std::uint64_t kNoMerge = UINT64_MAX;

std::uint64_t packed(Merge merge) {
  return static_cast<std::uint64_t>(merge.rank) << 32 | static_cast<std::uint32_t>(merge.into);
}
Token into_of(std::uint64_t merge) { return static_cast<Token>(merge & UINT32_MAX); }

}  // namespace

Bpe::Bpe(BpeParts parts)
    : parts_(std::move(parts)),
      merges_(parts_.merges.size()),
      words_(parts_.ignore_merges ? parts_.tokens.size() : 0) {
  TESSERA_CHECK(parts_.byte_tokens.empty() || parts_.byte_tokens.size() == 256, "one token for each byte");
  for (std::size_t rank = 0; rank < parts_.merges.size(); ++rank) {
    const auto& [left, right, into] = parts_.merges[rank];
    merges_.add(left, right, {static_cast<std::uint32_t>(rank), into});
  }
  singles_.assign(256, kNoToken);
  for (const auto& [text, token] : parts_.tokens) {
    if (text.empty()) continue;
    if (parts_.by_bytes && text.size() == 1) singles_[static_cast<unsigned char>(text[0])] = token;
    if (parts_.by_bytes || valid_prefix(text) != text.size()) continue;
    const auto [code, bytes] = code_point_at(text, 0);
    if (bytes != text.size()) continue;
    if (code >= singles_.size()) singles_.resize(code + 1, kNoToken);
    singles_[code] = token;
  }
  if (parts_.ignore_merges)
    for (const auto& [text, token] : parts_.tokens) words_.add(text, static_cast<std::uint32_t>(token));
  if (!parts_.by_bytes || std::count(singles_.begin(), singles_.end(), kNoToken) > 0) return;
  byte_merges_.resize(256 * 256);
  for (std::size_t left = 0; left < 256; ++left)
    for (std::size_t right = 0; right < 256; ++right)
      byte_merges_[left * 256 + right] = merge_of(singles_[left], singles_[right]);
}

Token Bpe::first_token(char32_t code) const { return code < singles_.size() ? singles_[code] : kNoToken; }

bool Bpe::can_cut_before(char32_t mark) const {
  if (parts_.by_bytes || first_token(mark) == kNoToken) return false;
  const std::string wanted = to_utf8(mark);
  std::vector<bool> is_made;
  for (const MergePair& merge : parts_.merges) {
    if (static_cast<std::size_t>(merge.into) >= is_made.size())
      is_made.resize(static_cast<std::size_t>(merge.into) + 1);
    is_made[static_cast<std::size_t>(merge.into)] = true;
  }
  const auto has_inside = [&](std::string_view text) {
    while (text.starts_with(wanted)) text.remove_prefix(wanted.size());
    return text.find(wanted) != std::string_view::npos;
  };
  return std::none_of(parts_.tokens.begin(), parts_.tokens.end(), [&](const auto& each) {
    const auto token = static_cast<std::size_t>(each.second);
    return token < is_made.size() && is_made[token] && has_inside(each.first);
  });
}

// All bytes are tokens: their merges are looked up by the bytes.
void Bpe::begin_with_bytes(std::string_view word, Scratch& scratch) const {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(word[i]));
  };
  scratch.tokens.resize(word.size());
  scratch.merges.resize(word.size());
  for (std::size_t i = 0; i < word.size(); ++i) scratch.tokens[i] = singles_[byte(i)];
  for (std::size_t i = 0; i + 1 < word.size(); ++i)
    scratch.merges[i] = byte_merges_[byte(i) * 256 + byte(i + 1)];
  scratch.merges.back() = kNoMerge;
}

void Bpe::find_merges(Scratch& scratch) const {
  const auto& tokens = scratch.tokens;
  scratch.merges.assign(tokens.size(), kNoMerge);
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) scratch.merges[i] = merge_of(tokens[i], tokens[i + 1]);
}

void Bpe::begin_with(std::string_view word, Scratch& scratch) const {
  if (!byte_merges_.empty()) return begin_with_bytes(word, scratch);
  std::vector<Token>& out = scratch.tokens;
  out.clear();
  bool unknown_waits = false;
  const auto flush = [&] {
    if (unknown_waits) out.push_back(parts_.unknown);
    unknown_waits = false;
  };
  for (std::size_t at = 0; at < word.size();) {
    const auto [code, bytes] =
        parts_.by_bytes ? CodePoint{static_cast<unsigned char>(word[at]), 1} : code_point_at(word, at);
    const Token token = first_token(code);
    if (token != kNoToken) {
      flush();
      out.push_back(token);
    } else if (!parts_.byte_tokens.empty()) {
      for (const char byte : word.substr(at, bytes))
        out.push_back(parts_.byte_tokens[static_cast<unsigned char>(byte)]);
    } else if (parts_.unknown != kNoToken) {
      if (!parts_.fuse_unknown) flush();
      unknown_waits = true;
    }
    at += bytes;
  }
  flush();
  find_merges(scratch);
}

std::uint64_t Bpe::merge_of(Token left, Token right) const { return packed(merges_.find(left, right)); }

// Symbols are a linked list of places. Which merge is next is found by a walk over all of them, dead ones
// too, four at a time and without a branch: for a short word that is faster than a heap.
void Bpe::merge_short(Scratch& scratch) const {
  auto& tokens = scratch.tokens;
  auto& merges = scratch.merges;
  auto& order = scratch.heap;
  const std::size_t count = tokens.size();
  std::array<std::uint8_t, kShort + 1> before_it, after_it;
  order.assign((count + 3) / 4 * 4, kNoMerge);  // rank and place
  const auto set = [&](std::size_t place, std::uint64_t merge) {
    merges[place] = merge;
    order[place] = (merge & ~std::uint64_t{UINT32_MAX}) | place;
  };
  for (std::size_t i = 0; i < count; ++i) {
    before_it[i] = static_cast<std::uint8_t>(i - 1);
    after_it[i] = static_cast<std::uint8_t>(i + 1);
    set(i, merges[i]);
  }
  while (true) {
    std::array<std::uint64_t, 4> lowest = {order[0], order[1], order[2], order[3]};
    for (std::size_t i = 4; i < order.size(); i += 4)
      for (std::size_t j = 0; j < 4; ++j) lowest[j] = std::min(lowest[j], order[i + j]);
    const std::uint64_t first = std::min(std::min(lowest[0], lowest[1]), std::min(lowest[2], lowest[3]));
    if (first >> 32 == UINT32_MAX) break;
    const std::size_t place = first & UINT32_MAX, gone = after_it[place], after = after_it[gone];
    tokens[place] = into_of(merges[place]);
    tokens[gone] = kNoToken;
    set(gone, kNoMerge);
    after_it[place] = static_cast<std::uint8_t>(after);
    if (after < count) before_it[after] = static_cast<std::uint8_t>(place);
    set(place, after < count ? merge_of(tokens[place], tokens[after]) : kNoMerge);
    if (place > 0) set(before_it[place], merge_of(tokens[before_it[place]], tokens[place]));
  }
  std::erase(tokens, kNoToken);
}

// Symbols are a linked list of places, merges wait in a heap by rank and place. One that a neighbour's merge
// has overtaken is known by its place: the list has another merge there, or none.
void Bpe::merge_long(Scratch& scratch) const {
  auto& [tokens, merges, previous, next, heap] = scratch;
  const auto count = static_cast<std::int32_t>(tokens.size());
  const auto at = [](std::int32_t place) { return static_cast<std::size_t>(place); };
  const auto later = std::greater<std::uint64_t>();
  previous.resize(tokens.size());
  next.resize(tokens.size());
  heap.clear();
  const auto waits = [&](std::int32_t place) {
    if (merges[at(place)] == kNoMerge) return false;
    heap.push_back((merges[at(place)] & ~std::uint64_t{UINT32_MAX}) | static_cast<std::uint32_t>(place));
    return true;
  };
  const auto offer = [&](std::int32_t place) {
    merges[at(place)] =
        next[at(place)] < count ? merge_of(tokens[at(place)], tokens[at(next[at(place)])]) : kNoMerge;
    return waits(place);
  };
  for (std::int32_t i = 0; i < count; ++i) {
    previous[at(i)] = i - 1;
    next[at(i)] = i + 1;
  }
  for (std::int32_t i = 0; i < count; ++i) waits(i);
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const std::uint64_t top = heap.back();
    heap.pop_back();
    const auto place = static_cast<std::int32_t>(top & UINT32_MAX);
    if (merges[at(place)] == kNoMerge || merges[at(place)] >> 32 != top >> 32) continue;
    tokens[at(place)] = into_of(merges[at(place)]);
    const std::int32_t gone = next[at(place)];
    merges[at(gone)] = kNoMerge;
    tokens[at(gone)] = kNoToken;
    next[at(place)] = next[at(gone)];
    if (next[at(place)] < count) previous[at(next[at(place)])] = place;
    if (offer(place)) std::push_heap(heap.begin(), heap.end(), later);
    if (previous[at(place)] >= 0 && offer(previous[at(place)]))
      std::push_heap(heap.begin(), heap.end(), later);
  }
  std::erase(tokens, kNoToken);
}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<Token>& out) const {
  if (const auto found = parts_.ignore_merges ? words_.find(word) : std::nullopt) {
    out.push_back(static_cast<Token>(*found));
    return;
  }
  begin_with(word, scratch);
  if (scratch.tokens.size() > kShort)
    merge_long(scratch);
  else if (scratch.tokens.size() > 1)
    merge_short(scratch);
  out.insert(out.end(), scratch.tokens.begin(), scratch.tokens.end());
}

}  // namespace tessera::tokenizer
