#include "tessera/generate/stop_texts.hpp"

#include <gtest/gtest.h>

namespace tessera::generate {
namespace {

// What is said of an answer that comes in these parts.
std::string said(StopTexts stops, const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += stops.push(part) + "|";
  return out + stops.finish();
}

TEST(StopTexts, EndTheAnswerBeforeThemHoweverTheyCome) {
  EXPECT_EQ(said(StopTexts({"END"}), {"one END two", "three"}), "one ||");
  EXPECT_EQ(said(StopTexts({"END"}), {"one E", "N", "D two"}), "one |||");
  EXPECT_EQ(said(StopTexts({"\n\n", "b"}), {"a\n", "\nb"}), "a||");
}

TEST(StopTexts, GiveBackWhatWasOnlyTheBeginOfOne) {
  EXPECT_EQ(said(StopTexts({"END"}), {"one EN", "G E"}), "one |ENG |E");
  EXPECT_EQ(said(StopTexts({"aab"}), {"aa", "a", "b"}), "|a||");
  EXPECT_EQ(said(StopTexts({}), {"one ", "two"}), "one |two|");
}

}  // namespace
}  // namespace tessera::generate
