#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/tokenizer/sentencepiece/model_file.hpp"
#include "tessera/tokenizer/sentencepiece_tokenizer.hpp"

namespace tessera::tokenizer::sentencepiece {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tokens = std::vector<Token>;

// Fields of a model file, as protobuf writes them.
std::string number_field(int field, std::uint64_t value) {
  std::string out(1, static_cast<char>(field << 3 & 0x7F));
  if (field > 15) out = {static_cast<char>((field << 3 & 0x7F) | 0x80), static_cast<char>(field >> 4)};
  for (; value > 0x7F; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

std::string bytes_field(int field, const std::string& bytes) {
  std::string out = number_field(field, bytes.size());
  out[0] = static_cast<char>(out[0] | 2);
  return out + bytes;
}

std::string float_field(int field, float value) {
  std::string out(4, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return static_cast<char>(field << 3 | 5) + out;
}

constexpr int kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;
constexpr int kUnigram = 1, kBpe = 2, kWord = 3, kCharacter = 4;

std::string piece(std::string_view text, float score, int type = 1) {
  return bytes_field(1, bytes_field(1, std::string(text)) + float_field(2, score) +
                            number_field(3, static_cast<unsigned>(type)));
}

std::string byte_pieces() {
  std::string out;
  char name[8];
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    out += piece(name, 0, kByte);
  }
  return out;
}

std::string specials() {
  return piece("<unk>", 0, kUnknown) + piece("<s>", 0, kControl) + piece("</s>", 0, kControl);
}

std::string trained_by(int algorithm, bool byte_fallback = false) {
  return bytes_field(
      2, number_field(3, static_cast<unsigned>(algorithm)) + number_field(35, byte_fallback ? 1 : 0));
}

std::unique_ptr<Tokenizer> made(const std::string& model) { return parse_sentencepiece(model, "m.model"); }

Tokens encoded(const Tokenizer& tokenizer, std::string_view text) {
  Tokens out;
  tokenizer.encoder()->encode(text, out);
  return out;
}

std::string streamed(const Tokenizer& tokenizer, const Tokens& tokens) {
  const auto decoder = tokenizer.decoder();
  std::string out;
  for (const Token token : tokens) out += decoder->push(token);
  return out + decoder->finish();
}

// Tokens from 3: marks and letters, and what they are joined to.
std::string letters() {
  return piece(kMark, -10) + piece("a", -11) + piece("b", -12) + piece("ab", -1) +
         piece(cat(kMark, "a"), -2) + piece(cat(kMark, "ab"), -3);
}

TEST(SentencePiece, PairsAreJoinedInTheOrderOfTheirScores) {
  const auto tokenizer = made(specials() + letters() + trained_by(kBpe));
  EXPECT_EQ(tokenizer->vocabulary_size(), 9);
  EXPECT_THAT(encoded(*tokenizer, "ab"), ElementsAre(8));
  EXPECT_THAT(encoded(*tokenizer, "abab  ba"), ElementsAre(8, 6, 3, 5, 4));
  EXPECT_THAT(encoded(*tokenizer, "xyab"), ElementsAre(3, 0, 6)) << "what is unknown is one token";
  EXPECT_THAT(encoded(*tokenizer, "   "), ElementsAre());
  EXPECT_EQ(tokenizer->decode(Tokens{8, 6, 3, 5, 4}, false), "abab ba");
  EXPECT_EQ(tokenizer->decode(Tokens{3, 0, 6}, false), " \u2047 ab");
}

TEST(SentencePiece, TheSegmentationWithTheHighestSumIsTaken) {
  const auto tokenizer = made(specials() + letters() + piece(cat(kMark, "aba"), -4) + trained_by(kUnigram));
  EXPECT_THAT(encoded(*tokenizer, "ab"), ElementsAre(8));
  EXPECT_THAT(encoded(*tokenizer, "abab"), ElementsAre(8, 6));
  EXPECT_THAT(encoded(*tokenizer, "aba"), ElementsAre(9));
  EXPECT_THAT(encoded(*tokenizer, "xab"), ElementsAre(3, 0, 6));
}

TEST(SentencePiece, WordsAndCharactersArePiecesToo) {
  const auto by_word = made(specials() + letters() + trained_by(kWord));
  EXPECT_THAT(encoded(*by_word, "ab a b"), ElementsAre(8, 7, 0));
  const auto by_character = made(specials() + letters() + trained_by(kCharacter));
  EXPECT_THAT(encoded(*by_character, "ab a"), ElementsAre(3, 4, 5, 3, 4));
}

TEST(SentencePiece, BytesStandForWhatIsUnknownAndWaitForTheirCharacter) {
  const auto tokenizer = made(specials() + byte_pieces() + letters() + trained_by(kBpe, true));
  const Tokens tokens = encoded(*tokenizer, "a\u20ACb");
  ASSERT_EQ(tokens.size(), 5U);
  EXPECT_EQ(tokens[1], 3 + 0xE2);
  EXPECT_EQ(tokenizer->decode(tokens, false), "a\u20ACb");
  EXPECT_EQ(tokenizer->decoder()->push(tokens[1]), "");
  EXPECT_EQ(streamed(*tokenizer, tokens), "a\u20ACb");
  EXPECT_EQ(streamed(*tokenizer, {tokens[1], tokens[2], tokens[0]}), "\uFFFD\uFFFD a");
  EXPECT_EQ(streamed(*tokenizer, {tokens[1], tokens[1]}), "\uFFFD\uFFFD");
}

TEST(SentencePiece, UnusedPiecesComeApartAndUserDefinedOnesStayWhole) {
  const auto tokenizer =
      made(specials() + piece(kMark, -10) + piece("a", -11) + piece("b", -12) + piece("ab", -1, kUnused) +
           piece("abb", -2) + piece("ba", 0, kUserDefined) + trained_by(kBpe));
  EXPECT_THAT(encoded(*tokenizer, "ab"), ElementsAre(3, 4, 5));
  EXPECT_THAT(encoded(*tokenizer, "abb"), ElementsAre(3, 7));
  EXPECT_THAT(encoded(*tokenizer, "aba"), ElementsAre(3, 4, 8));
}

TEST(SentencePiece, SpecialPiecesAreFoundByTheirTextsAndNeverInATexts) {
  const auto tokenizer = made(specials() + letters() + piece("<", -20) + trained_by(kBpe));
  EXPECT_EQ(tokenizer->token_of("<s>"), 1);
  EXPECT_EQ(tokenizer->token_of("none"), std::nullopt);
  EXPECT_EQ(tokenizer->text_of(8), cat(kMark, "ab"));
  EXPECT_EQ(tokenizer->text_of(99), "");
  EXPECT_THAT(tokenizer->prefix(), ElementsAre(1));
  EXPECT_THAT(encoded(*tokenizer, "<s>"), ElementsAre(3, 9, 0));
  EXPECT_EQ(tokenizer->decode(Tokens{1, 8, -5, 1000, 2}, false), "ab");
}

// A double array with one rule: 'A' becomes `value`'s text among `texts`.
std::string charsmap(std::uint32_t value, const std::string& texts) {
  std::vector<std::uint32_t> units(256, 0);
  const auto offset = [](std::uint32_t x) { return x << 10; };
  units[0] = offset(1);                                      // its children lie at 1 ^ byte
  units[1 ^ 'A'] = offset((1 ^ 'A') ^ 200) | 1U << 8 | 'A';  // its leaf lies at 200
  units[200] = 1U << 31 | value;
  std::string out(4 + 4 * units.size(), '\0');
  const auto bytes = static_cast<std::uint32_t>(4 * units.size());
  std::memcpy(out.data(), &bytes, 4);
  std::memcpy(out.data() + 4, units.data(), bytes);
  return out + texts;
}

std::string changed_by(const std::string& map) {
  return specials() + letters() + trained_by(kBpe) + bytes_field(3, bytes_field(2, map));
}

TEST(SentencePiece, CharactersBecomeWhatTheCharsmapSays) {
  const std::string texts("ab\0b\0", 5);
  EXPECT_THAT(encoded(*made(changed_by(charsmap(0, texts))), "A"), ElementsAre(8));
  EXPECT_THAT(encoded(*made(changed_by(charsmap(3, texts))), "aA"), ElementsAre(8));
  EXPECT_THAT(complaint_of([&] { made(changed_by(charsmap(5, texts))); }), HasSubstr("outside of itself"));
  const std::string long_text = std::string(100'000, 'a') + '\0';
  EXPECT_THAT(complaint_of([&] { encoded(*made(changed_by(charsmap(0, long_text))), "A"); }),
              HasSubstr("times its length"));
}

// Nothing that a charsmap says leads out of it: every unit in turn is made to point anywhere.
TEST(SentencePiece, ACharsmapThatIsCutOrChangedIsRefusedOrHarmless) {
  const std::string whole = charsmap(0, std::string("ab\0", 3));
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 7)
    complaint_of([&] { encoded(*made(changed_by(whole.substr(0, bytes))), "A aA"); });
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const char value : {'\x00', '\x7F', '\xFF'}) {
      std::string map = whole;
      map[at] = value;
      complaint_of([&] { encoded(*made(changed_by(map)), "A aA"); });
    }
}

TEST(SentencePiece, WhatIsNoModelIsRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"not a model", "is not a SentencePiece model"},
      {"", "neither a piece for what is unknown"},
      {letters(), "neither a piece for what is unknown"},
      {specials() + piece("<unk>2", 0, kUnknown), "second one"},
      {specials() + letters() + piece("a", 0), "the text of another"},
      {specials() + piece("", 0), "is empty"},
      {specials() + piece(std::string(8000, 'x'), 0), "longer than 8000 bytes"},
      {specials() + piece("x", std::numeric_limits<float>::quiet_NaN()), "finite numbers"},
      {specials() + piece("<0x41>", 0, kByte), "byte_fallback is false"},
      {specials() + trained_by(kBpe, true), "not all 256 byte pieces"},
      {specials() + byte_pieces() + piece("<0x4a>", 0, kByte) + trained_by(kBpe, true), "the form <0x0A>"},
  };
  for (const auto& [model, why] : cases) EXPECT_THAT(complaint_of([&] { made(model); }), HasSubstr(why));
  const std::string path = ::testing::TempDir() + "no.model";
  std::ofstream(path) << "not a model";
  EXPECT_THROW(open_tokenizer(path), UserError);
}

}  // namespace
}  // namespace tessera::tokenizer::sentencepiece
