#include "tessera/checkpoint/format/manifest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/complaint.hpp"

namespace tessera::checkpoint {
namespace {

using ::testing::HasSubstr;

Manifest small() {
  Manifest out{
      .written_by = "0.1",
      .progress = {.step = 3, .updates = 2, .next_sample = 24, .seed = 7, .loss_scale = 512, .good_steps = 1},
      .config = "[model]\nlayers = 2\n",
      .program_hash = "00ff"};
  out.tensors = {{"a", {"F32", {4, 2}}}, {"b", {"BF16", {3}}}};
  out.files = {{"rank-00000.safetensors", 1000, 0xabc}, {"huggingface/config.json", 10, 1}};
  out.pieces = {{"a", {{0, 0}, {3, 2}}, 0, 100}, {"a", {{3, 0}, {1, 2}}, 0, 124}, {"b", {{0}, {3}}, 0, 132}};
  return out;
}

std::string complaint(const Manifest& manifest) {
  return complaint_of([&] { parse_manifest(to_text(manifest), "m.json"); });
}

TEST(Manifest, ReadsBackWhatItWrites) { EXPECT_EQ(parse_manifest(to_text(small()), "m.json"), small()); }

TEST(Manifest, AnyFlippedBitIsFound) {
  const std::string text = to_text(small());
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_THAT(complaint_of([&] { parse_manifest(damaged, "m.json"); }), HasSubstr("damaged")) << bit;
  }
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_NE(complaint_of([&] { parse_manifest(text.substr(0, size), "m.json"); }), "");
}

TEST(Manifest, SaysWhatIsWrong) {
  const auto changed = [](const auto& change) {
    Manifest manifest = small();
    change(manifest);
    return complaint(manifest);
  };
  EXPECT_THAT(changed([](Manifest& m) { m.pieces.pop_back(); }), HasSubstr("'b': pieces hold 0 of 3"));
  EXPECT_THAT(changed([](Manifest& m) { m.pieces[1].box.offset[0] = 2; }),
              HasSubstr("'a': two pieces overlap"));
  EXPECT_THAT(changed([](Manifest& m) { m.pieces[1].box.offset[0] = 4; }), HasSubstr("outside the tensor"));
  EXPECT_THAT(changed([](Manifest& m) { m.pieces[1].begin = 999; }), HasSubstr("beyond file 'rank-00000"));
  EXPECT_THAT(changed([](Manifest& m) { m.pieces[1].file = 2; }), HasSubstr("file 2 of 2"));
  EXPECT_THAT(changed([](Manifest& m) { m.tensors["a"].dtype = "F31"; }), HasSubstr("unknown dtype 'F31'"));
  EXPECT_THAT(changed([](Manifest& m) { m.tensors["a"].shape = {1ll << 40, 1ll << 40}; }), HasSubstr("2^63"));
  for (const char* name : {"../x", "/etc/x", "a//b", "", "a/.", "a/../../b", "a/"})
    EXPECT_THAT(changed([&](Manifest& m) { m.files[1].name = name; }),
                HasSubstr("leaves the checkpoint's folder"));
  EXPECT_THAT(changed([](Manifest& m) { m.files[1].name = m.files[0].name; }), HasSubstr("listed twice"));
}

// The same text with another version, and the hash that belongs to it.
TEST(Manifest, WhatIsMadeToOverwhelmAReaderIsRefused) {
  Manifest manifest = small();
  manifest.tensors["a"].shape = Shape(9, 1);
  EXPECT_THAT(complaint(manifest), HasSubstr("more than 8 dims"));

  std::string text = to_text(small());
  const std::string step = "\"step\":";
  text.replace(text.find(step), step.size() + 1, step + std::string(1'000'000, '['));
  const std::size_t head = std::string_view("{\"hash\":\"0123456789abcdef").size();
  text.replace(head - 16, 16, hash_text(hash_of(std::as_bytes(std::span(text).subspan(head)))));
  EXPECT_THAT(complaint_of([&] { parse_manifest(text, "m.json"); }), HasSubstr("nested deeper"));
}

TEST(Manifest, ANewerVersionIsRefusedWithWhatToDo) {
  std::string text = to_text(small());
  text.replace(text.find("\"version\":1"), 11, "\"version\":2");
  const std::string rest = text.substr(25);
  text.replace(9, 16, hash_text(hash_of(std::as_bytes(std::span(rest)))));
  EXPECT_THAT(
      complaint_of([&] { parse_manifest(text, "m.json"); }),
      HasSubstr("written in version 2 of the format; this Tessera reads version 1. Use the Tessera that "
                "wrote it (0.1)"));
}

TEST(Manifest, PartsOfRanksAreJoined) {
  Manifest first = small(), second = small();
  first.pieces.pop_back();
  second.files = {{"rank-00001.safetensors", 1000, 0xdef}};
  second.pieces = {{"b", {{0}, {3}}, 0, 132}};
  const Manifest whole = merged({first, second});
  EXPECT_EQ(whole.pieces.back().file, 2u);
  EXPECT_EQ(complaint(whole), "");
  second.tensors["b"].shape = {4};
  EXPECT_THAT(complaint_of([&] { merged({first, second}); }), HasSubstr("ranks disagree about tensor 'b'"));
}

}  // namespace
}  // namespace tessera::checkpoint
