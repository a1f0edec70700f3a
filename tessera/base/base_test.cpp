#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <thread>

#include "tessera/base/error.hpp"
#include "tessera/base/process/key_store.hpp"
#include "tessera/base/random.hpp"
#include "tessera/base/shortened.hpp"
#include "tessera/base/text.hpp"

namespace tessera {
namespace {

TEST(Text, JoinsPartsAndPrintsSizesForPeople) {
  EXPECT_EQ(cat("a", 1, ' ', 2.5, true), "a1 2.5true");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(count_text(10'200'000), "10.2M");
  EXPECT_EQ(duration_text(95), "1m35s");
  EXPECT_EQ(fixed(2.0 / 3, 3), "0.667");
}

TEST(Text, FindsTheNearestKnownWordOnlyWhenItIsNear) {
  const std::vector<std::string> known = {"learning_rate", "layers", "heads"};
  EXPECT_EQ(nearest("learning_rat", known), "learning_rate");
  EXPECT_EQ(nearest("layer", known), "layers");
  EXPECT_EQ(nearest("zzzzzzzz", known), std::nullopt);
}

TEST(Text, AMessageIsBoundedWhateverItQuotes) {
  EXPECT_EQ(bounded_message("short\nlines\n"), "short\nlines\n");
  const std::string megabyte(1 << 20, 'x');
  EXPECT_EQ(nearest(megabyte, std::vector<std::string>{"pp"}), std::nullopt);
  const std::string one = bounded_message(cat("key = ", megabyte, ": wants a number"));
  EXPECT_LT(one.size(), 1100U);
  EXPECT_TRUE(one.starts_with("key = xxx") && one.ends_with("xxx: wants a number")) << one;
  EXPECT_LT(bounded_message(std::string(1 << 20, '\n')).size(), 21000U);
  EXPECT_EQ(shortened("\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4", 7),
            "\u00e4\u00e4 ... (6 bytes left out) ... \u00e4");
}

TEST(Text, WrapsLongLinesBelowTheirLastColumn) {
  EXPECT_EQ(wrapped("short\nand", 10), "short\nand");
  EXPECT_EQ(wrapped("one two three four\n", 10), "one two\nthree four\n");
  EXPECT_EQ(wrapped("  a  one two three\n  b  four", 12), "  a  one two\n     three\n  b  four");
  EXPECT_EQ(wrapped("averylongwordindeed", 10), "averylongwordindeed");
  EXPECT_EQ(wrapped("  a  averylongwordindeed one", 10), "  a  averylongwordindeed one");
}

TEST(Text, AlignsTables) {
  EXPECT_EQ(table({{"name", "n"}, {"a", "10"}, {"bcd", "5"}}), "name   n\n--------\na     10\nbcd    5\n");
}

TEST(Error, EachKindHasItsExitCode) {
  EXPECT_EQ(exit_code(UserError("x")), 2);
  EXPECT_EQ(exit_code(Bug("x")), 70);
  EXPECT_EQ(exit_code(PeerLost("x")), 75);
  EXPECT_EQ(exit_code(std::runtime_error("x")), 70);
  try {
    EXPECT_FALSE(std::filesystem::exists(std::string(100'000, 'x')));
    FAIL();
  } catch (const std::exception& too_long) {
    EXPECT_EQ(exit_code(too_long), 2);
  }
  try {
    TESSERA_CHECK(1 == 2, "one is ", 1);
    FAIL();
  } catch (const Bug& bug) {
    EXPECT_NE(std::string(bug.what()).find("one is 1 (1 == 2 is false)"), std::string::npos) << bug.what();
  }
}

// Known answers published with the Random123 library (kat_vectors, philox4x32 with 10 rounds).
TEST(Random, PhiloxGivesThePublishedAnswers) {
  using Block = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const std::uint32_t f = 0xffffffff;
  EXPECT_EQ(philox({f, f, f, f}, {f, f}), (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, ManyNormalsAreThoseOfTheirIndices) {
  for (const std::uint64_t first : {0u, 1u, 6u, 7u})
    for (const std::size_t size : {0u, 1u, 2u, 5u, 100u}) {
      std::vector<double> found(size);
      random_normals(7, 9, first, found);
      for (std::size_t i = 0; i < size; ++i) EXPECT_EQ(found[i], random_normal(7, 9, first + i));
    }
}

TEST(Random, HalvesAreThoseOfThePhiloxBlocks) {
  const std::uint64_t key = 0x0123456789abcdef;
  for (const std::size_t size : {1u, 127u, 128u, 300u}) {
    std::vector<std::uint16_t> found(size);
    random_halves(key, {7, 8, 9}, found);
    for (std::size_t e = 0; e < size; ++e) {
      const auto block = static_cast<std::uint32_t>(e / 128 * 16 + e % 16);
      const std::uint32_t word = philox({block, 7, 8, 9}, {0x89abcdef, 0x01234567})[e % 64 / 16];
      EXPECT_EQ(found[e], e % 128 < 64 ? word & 0xffff : word >> 16) << "element " << e << " of " << size;
    }
  }
}

TEST(Random, NormalsHaveMeanZeroAndVarianceOne) {
  double sum = 0, squares = 0;
  const int n = 100'000;
  for (int i = 0; i < n; ++i) {
    const double x = random_normal(7, stream_of("w"), static_cast<std::uint64_t>(i));
    sum += x, squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0.0, 4 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1.0, 4 * std::sqrt(2.0 / n));
}

TEST(Random, PermutationIsABijectionForEverySize) {
  for (const std::uint64_t size : {1, 2, 3, 7, 64, 65, 1000}) {
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < size; ++i) seen.insert(permuted(i, size, 5, 2));
    EXPECT_EQ(seen.size(), size);
    EXPECT_LT(*seen.rbegin(), size);
  }
}

TEST(MemoryKeyStore, ExchangeWaitsForPeersAndNamesTheMissing) {
  MemoryKeyStore store;
  std::thread peer([&] { store.put_and_get({{"b", "2"}}, {"a"}, std::chrono::seconds(5)); });
  EXPECT_EQ(store.put_and_get({{"a", "1"}}, {"b", "a"}, std::chrono::seconds(5)),
            (std::vector<std::string>{"2", "1"}));
  peer.join();
  try {
    store.put_and_get({}, {"absent"}, std::chrono::milliseconds(10));
    FAIL();
  } catch (const PeerLost& lost) {
    EXPECT_NE(std::string(lost.what()).find("absent"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
