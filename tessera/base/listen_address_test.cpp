#include "tessera/base/listen_address.hpp"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(ListenAddress, IsAnAddressInDigitsAndAPort) {
  const auto text = [](const char* given) {
    const auto found = parse_listen_address(given);
    return found ? to_text(*found) : "";
  };
  EXPECT_EQ(text("127.0.0.1:9464"), "127.0.0.1:9464");
  EXPECT_EQ(text("0.0.0.0:0"), "0.0.0.0:0");
  EXPECT_EQ(text("localhost:80"), "127.0.0.1:80");
  EXPECT_EQ(text("9464"), "127.0.0.1:9464");
  EXPECT_EQ(text("[::]:9464"), "[::]:9464");
  EXPECT_EQ(text("[fe80::1]:65535"), "[fe80::1]:65535");
  for (const char* wrong : {"", ":", ":9464", "127.0.0.1:", "127.0.0.1", "::1:80", "[127.0.0.1]:80", "[::1]",
                            "node1:9464", "127.0.0.1:65536", "127.0.0.1:-1", "1.2.3:80", "127.0.0.1:9464x"})
    EXPECT_EQ(text(wrong), "") << wrong;
}

}  // namespace
}  // namespace tessera
