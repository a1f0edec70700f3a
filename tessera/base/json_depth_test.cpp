#include "tessera/base/json_depth.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

TEST(JsonDepth, CountsBracketsOutsideOfTexts) {
  EXPECT_EQ(json_depth(""), 0);
  EXPECT_EQ(json_depth("3"), 0);
  EXPECT_EQ(json_depth("{}"), 1);
  EXPECT_EQ(json_depth(R"({"a":[1],"b":[2]})"), 2);
  EXPECT_EQ(json_depth(R"({"a[[[":"]{{\"[[[\\"})"), 1);
  EXPECT_EQ(json_depth(R"({"a":"\\","b":[[]]})"), 3);
  EXPECT_EQ(json_depth(std::string(1'000'000, '[')), 1'000'000);
}

}  // namespace
}  // namespace tessera
