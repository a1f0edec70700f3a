#include "tessera/base/number.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/complaint.hpp"

namespace tessera {
namespace {

TEST(Number, TakesDecimalNumbersWithASuffix) {
  EXPECT_EQ(parse_number("12"), 12);
  EXPECT_EQ(parse_number("-0.5"), -0.5);
  EXPECT_EQ(parse_number("1.5e9"), 1.5e9);
  EXPECT_EQ(parse_number("2T"), 2e12);
  EXPECT_EQ(parse_number("7B"), 7e9);
  EXPECT_EQ(parse_number("1.5k"), 1500);
}

TEST(Number, TakesNothingElse) {
  for (const char* text : {"", " 1", "1 ", "nan", "-nan", "inf", "-inf", "infinity", "1e309", "1e300T",
                           "0x10", "2TT", "2t", "1,5", "T", "--1", "1e"})
    EXPECT_EQ(parse_number(text), std::nullopt) << text;
}

TEST(Number, ARefusalNamesTheValueAndWhatIsAllowed) {
  const auto complaint = [](const char* text, NumberKind kind) {
    return complaint_of([&] { required_number("--tokens", text, {.least = 1, .most = 10}, kind); });
  };
  EXPECT_EQ(complaint("nan", NumberKind::any), "--tokens nan: wants a number from 1 to 10");
  EXPECT_EQ(complaint("11", NumberKind::any), "--tokens 11: wants a number from 1 to 10");
  EXPECT_EQ(complaint("1.5", NumberKind::whole), "--tokens 1.5: wants an integer from 1 to 10");
  EXPECT_EQ(complaint("1.5", NumberKind::any), "");
}

}  // namespace
}  // namespace tessera
