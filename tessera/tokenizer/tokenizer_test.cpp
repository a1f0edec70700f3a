#include "tessera/tokenizer/tokenizer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/tokenizer/json_tokenizer.hpp"

namespace tessera::tokenizer {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Tokens = std::vector<Token>;

Tokens encoded(const Tokenizer& tokenizer, std::string_view text) {
  Tokens out;
  tokenizer.encoder()->encode(text, out);
  return out;
}

std::vector<std::string> streamed(const Tokenizer& tokenizer, const Tokens& tokens) {
  const auto decoder = tokenizer.decoder();
  std::vector<std::string> out;
  for (const Token token : tokens) out.push_back(decoder->push(token));
  out.push_back(decoder->finish());
  return out;
}

json added(int id, const char* content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

// "h", "i", "Ġ", the three bytes of the euro sign, and two merges.
json byte_level() {
  const json ends = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return {
      {"added_tokens", {added(8, "<end>", true)}},
      {"pre_tokenizer", ends},
      {"decoder", ends},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", {{{"SpecialToken", {{"id", "<end>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}}}}}},
        {"special_tokens", {{"<end>", {{"id", "<end>"}, {"ids", {8}}, {"tokens", {"<end>"}}}}}}}},
      {"model",
       {{"type", "BPE"},
        {"vocab",
         {{"h", 0},
          {"i", 1},
          {"\u0120", 2},
          {"\u00E2", 3},
          {"\u0124", 4},
          {"\u00AC", 5},
          {"hi", 6},
          {"\u0120hi", 7}}},
        {"merges", {"h i", "\u0120 hi"}}}}};
}

// Llama 2's form: text with marks for spaces, and bytes for what is no token.
json by_characters() {
  json vocabulary = {{"<unk>", 0}};
  char name[8];
  for (int byte = 0; byte < 256; ++byte) {
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
    vocabulary[name] = byte + 1;
  }
  for (const char* text : {"\u2581", "a", "b", "ab",
                           "\u2581"
                           "ab"})
    vocabulary[text] = vocabulary.size();
  return {{"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", "\u2581"}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}}},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}},
              {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"byte_fallback", true},
            {"fuse_unk", true},
            {"vocab", vocabulary},
            {"merges", json::array({json::array({"a", "b"}), json::array({"\u2581", "ab"})})}}}};
}

std::unique_ptr<Tokenizer> made(const json& file) {
  return parse_tokenizer_json(file.dump(), "tokenizer.json");
}

TEST(Tokenizer, ByteLevelTextGoesThereAndBack) {
  const auto tokenizer = made(byte_level());
  EXPECT_THAT(encoded(*tokenizer, "hi hi<end>\u20AC"), ElementsAre(6, 7, 8, 3, 4, 5));
  const Tokens tokens = {6, 7, 8, 3, 4, 5};
  EXPECT_EQ(tokenizer->decode(tokens, false), "hi hi<end>\u20AC");
  EXPECT_EQ(tokenizer->decode(tokens, true), "hi hi\u20AC");
  EXPECT_EQ(tokenizer->vocabulary_size(), 9);
  EXPECT_EQ(tokenizer->token_of("<end>"), 8);
  EXPECT_EQ(tokenizer->token_of("none"), std::nullopt);
  EXPECT_EQ(tokenizer->text_of(7), "\u0120hi");
  EXPECT_THAT(tokenizer->prefix(), ElementsAre(8));
  EXPECT_TRUE(tokenizer->suffix().empty());
}

TEST(Tokenizer, HalfACharacterWaitsForItsOtherHalf) {
  const auto tokenizer = made(byte_level());
  EXPECT_THAT(streamed(*tokenizer, {6, 3, 4, 5, 3}), ElementsAre("hi", "", "", "\u20AC", "", "\uFFFD"));
  EXPECT_THAT(streamed(*tokenizer, {3, 6, -1, 99}), ElementsAre("", "\uFFFDhi", "", "", ""));
}

TEST(Tokenizer, CharactersThatAreNoTokensBecomeBytes) {
  const auto tokenizer = made(by_characters());
  const Token mark = *tokenizer->token_of("\u2581"), word = *tokenizer->token_of(
                                                         "\u2581"
                                                         "ab");
  EXPECT_THAT(encoded(*tokenizer, "ab ab"), ElementsAre(word, word));
  const Tokens euro = encoded(*tokenizer, "\u20AC");
  EXPECT_THAT(euro, ElementsAre(mark, 0xE2 + 1, 0x82 + 1, 0xAC + 1));
  EXPECT_EQ(tokenizer->decode(euro, false), "\u20AC");
  // A row of bytes is sure only at its end: one more could make all of it no text.
  EXPECT_THAT(streamed(*tokenizer, {word, 0xE2 + 1, 0x82 + 1, 0xAC + 1, word}),
              ElementsAre("ab", "", "", "", "\u20AC ab", ""));
  EXPECT_EQ(tokenizer->decode(Tokens{word, 0xE2 + 1, 0x41 + 1}, false), "ab\uFFFD\uFFFD");
}

TEST(Tokenizer, BytesAreTokensWithoutAFile) {
  const auto tokenizer = open_tokenizer("bytes");
  EXPECT_THAT(encoded(*tokenizer, "a\xFF"), ElementsAre(97, 255));
  EXPECT_EQ(tokenizer->decode(Tokens{97, 255}, false), "a\xFF");
  EXPECT_EQ(tokenizer->vocabulary_size(), 256);
}

TEST(Tokenizer, ThreadsShareOneEachWithItsOwnEncoder) {
  const auto tokenizer = made(byte_level());
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      const auto encoder = tokenizer->encoder();
      for (int round = 0; round < 200; ++round) {
        Tokens out;
        encoder->encode("hi hi", out);
        ASSERT_THAT(out, ElementsAre(6, 7));
      }
    });
}

json replace_rule(const std::string& pattern, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", {{"String", pattern}}}, {"content", content}};
}

TEST(Tokenizer, RulesThatGrowATextWithoutBoundEndInASentence) {
  const json thousandfold(6, replace_rule("a", std::string(1000, 'a')));
  json normalizing = by_characters(), decoding = by_characters(), splitting = by_characters();
  normalizing["normalizer"] = {{"type", "Sequence"}, {"normalizers", thousandfold}};
  decoding["decoder"] = {{"type", "Sequence"}, {"decoders", thousandfold}};
  // Each pair gives every character a mark of its own, which is one more character for the next pair.
  splitting["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", json::array()}};
  for (const char* mark : {"b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q"}) {
    json& steps = splitting["pre_tokenizer"]["pretokenizers"];
    steps.push_back(
        {{"type", "Split"}, {"pattern", {{"Regex", "."}}}, {"behavior", "Isolated"}, {"invert", false}});
    steps.push_back({{"type", "Metaspace"}, {"replacement", mark}, {"split", false}});
  }
  EXPECT_THAT([&] { encoded(*made(normalizing), "a"); }, ThrowsMessage<UserError>(HasSubstr("long texts")));
  EXPECT_THAT([&] { encoded(*made(splitting), std::string(1000, 'a')); },
              ThrowsMessage<UserError>(HasSubstr("times its length")));
  const auto tokenizer = made(decoding);
  const Tokens tokens = encoded(*tokenizer, "a");
  EXPECT_THROW(tokenizer->decode(tokens, false), UserError);
  EXPECT_THROW(tokenizer->decoder()->push(tokens.back()), UserError);
}

TEST(Tokenizer, WhatIsRefusedIsNotQuotedWhole) {
  const std::string many(100'000, 'x');
  const auto bytes_of_complaint = [](const char* pointer, const json& value) {
    json file = byte_level();
    file[json::json_pointer(pointer)] = value;
    return complaint_of([&] { made(file); }).size();
  };
  const json splits = {{"type", "Split"}, {"behavior", "Isolated"}, {"invert", false}};
  json pattern = splits, property = splits;
  pattern["pattern"] = {{"Regex", many + "("}};
  property["pattern"] = {{"Regex", "\\p{" + many.substr(0, 9000) + "}"}};
  EXPECT_LT(bytes_of_complaint("/pre_tokenizer", pattern), 2000U);
  EXPECT_LT(bytes_of_complaint("/pre_tokenizer", property), 2000U);
  EXPECT_LT(bytes_of_complaint("/model/type", many), 2000U);
  EXPECT_LT(bytes_of_complaint("/added_tokens/0/content", many), 2000U);
}

TEST(Tokenizer, ComponentsThatAreNotKnownAreRefusedByName) {
  const auto changed = [](const char* pointer, const json& value) {
    json file = byte_level();
    file[json::json_pointer(pointer)] = value;
    return file;
  };
  const std::vector<std::pair<json, std::string>> cases = {
      {changed("/model/type", "Unigram"), "Unigram"},
      {changed("/pre_tokenizer/type", "UnicodeScripts"), "UnicodeScripts"},
      {changed("/decoder/type", "WordPiece"), "WordPiece"},
      {changed("/normalizer", {{"type", "Lowercase"}}), "Lowercase"},
      {changed("/post_processor/type", "Odd"), "Odd"},
      {changed("/model/dropout", 0.1), "dropout"},
      {changed("/model/end_of_word_suffix", "</w>"), "end_of_word_suffix"},
      {changed("/model/merges", {"h x"}), "'x'"},
      {changed("/model/merges", {"h"}), "not two tokens"},
      {changed("/model/vocab/h", -1), "'h'"},
      {changed("/added_tokens/0/id", 7), "<end>"},
      {changed("/model/unk_token", "?"), "unk_token"},
      {json::array(), "not a JSON object"},
  };
  for (const auto& [file, named] : cases) {
    try {
      made(file);
      ADD_FAILURE() << named << " is taken";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr(named));
    }
  }
  EXPECT_THROW(parse_tokenizer_json(std::string(100, '['), "deep"), UserError);
  EXPECT_THROW(parse_tokenizer_json("{", "cut"), UserError);
  EXPECT_THROW(open_tokenizer("/nonexistent/tokenizer.json"), UserError);
}

}  // namespace
}  // namespace tessera::tokenizer
