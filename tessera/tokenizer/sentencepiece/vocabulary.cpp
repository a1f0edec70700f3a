#include "tessera/tokenizer/sentencepiece/vocabulary.hpp"

#include <algorithm>
#include <charconv>

#include "tessera/base/error.hpp"
#include "tessera/base/shortened.hpp"

namespace tessera::tokenizer::sentencepiece {
namespace {

constexpr std::size_t kMostPieces = 1 << 24, kQuoted = 100;

bool is_segment(PieceType type) {
  return type == PieceType::normal || type == PieceType::user_defined || type == PieceType::unused;
}

// Conversions have been seen to add a piece that is a zero byte to models that have the bytes already.
bool is_stray_zero(const Piece& piece) { return piece.text == std::string_view("\0", 1); }

std::vector<Piece> without_stray_zeros(std::vector<Piece> pieces, bool byte_fallback) {
  for (Piece& piece : pieces)
    if (byte_fallback && is_stray_zero(piece)) piece.type = PieceType::unused;
  return pieces;
}

template <typename Holds>
PrefixTrie trie_of(const std::unordered_map<std::string_view, Token>& tokens, const Holds& holds) {
  std::vector<std::pair<std::string_view, Token>> words;
  for (const auto& [text, token] : tokens)
    if (holds(token)) words.emplace_back(text, token);
  return PrefixTrie(std::move(words));
}

}  // namespace

std::optional<unsigned char> byte_of(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || !piece.ends_with('>')) return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, value, 16);
  const bool is_small = piece.find_first_of("abcdef", 3) != std::string_view::npos;
  if (error != std::errc() || end != piece.data() + 5 || is_small) return std::nullopt;
  return static_cast<unsigned char>(value);
}

Vocabulary::Vocabulary(std::vector<Piece> pieces, bool byte_fallback, const std::string& where)
    : pieces_(without_stray_zeros(std::move(pieces), byte_fallback)) {
  if (pieces_.size() > kMostPieces) throw UserError(cat(where, ": has more than ", kMostPieces, " pieces"));
  bytes_.fill(kNoToken);
  for (Token token = 0; token < size(); ++token) add(token, where);
  const bool has_all = std::ranges::count(bytes_, kNoToken) == 0;
  const bool has_any = std::ranges::any_of(bytes_, [](Token token) { return token != kNoToken; });
  if (byte_fallback ? !has_all : has_any)
    throw UserError(cat(where, ": byte_fallback is ", byte_fallback, ", but it has ",
                        byte_fallback ? "not all 256 byte pieces" : "byte pieces"));
  if (unknown_ == kNoToken && !byte_fallback)
    throw UserError(cat(where, ": has neither a piece for what is unknown nor byte_fallback"));
  segments_ = trie_of(segment_tokens_, [](Token) { return true; });
  user_defined_ =
      trie_of(segment_tokens_, [&](Token token) { return (*this)[token].type == PieceType::user_defined; });
}

void Vocabulary::add(Token token, const std::string& where) {
  const Piece& piece = (*this)[token];
  const auto refuse = [&](const char* why) {
    throw UserError(cat(where, ": piece ", token, ", '", shortened(piece.text, kQuoted), "', ", why));
  };
  if (piece.type == PieceType::unused && is_stray_zero(piece)) return;
  if (piece.text.empty() || piece.text.size() >= kMostBytesOfPiece ||
      piece.text.find('\0') != std::string::npos)
    refuse("is empty, longer than 8000 bytes or has a zero byte");
  Tokens& tokens = is_segment(piece.type) ? segment_tokens_ : other_tokens_;
  if (!tokens.emplace(piece.text, token).second) refuse("has the text of another");
  if (is_segment(piece.type) && piece.text.find(kMark, 1) != std::string::npos) joins_words_ = true;
  if (piece.type == PieceType::unused) joins_words_ = true;
  if (piece.type == PieceType::unknown) {
    if (unknown_ != kNoToken) refuse("is the second one for what is unknown");
    unknown_ = token;
  }
  if (piece.type != PieceType::byte) return;
  const auto byte = byte_of(piece.text);
  if (!byte) refuse("is a byte, but does not have the form <0x0A>");
  bytes_[*byte] = token;
}

std::optional<Token> Vocabulary::find(std::string_view text) const {
  for (const Tokens* tokens : {&other_tokens_, &segment_tokens_})
    if (const auto found = tokens->find(text); found != tokens->end()) return found->second;
  return std::nullopt;
}

Token Vocabulary::find_segment(std::string_view text) const {
  const auto found = segment_tokens_.find(text);
  return found == segment_tokens_.end() ? unknown_ : found->second;
}

}  // namespace tessera::tokenizer::sentencepiece
