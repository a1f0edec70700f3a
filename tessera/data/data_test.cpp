#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>
#include <algorithm>
#include <numeric>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/data/batch_plan.hpp"
#include "tessera/data/byte_corpus.hpp"

namespace tessera::data {
namespace {

using Samples = std::vector<std::uint64_t>;
using Tokens = std::vector<std::int64_t>;

// A file of `size` bytes, byte i = i mod 251, that is gone when the test ends.
class TextFile {
 public:
  explicit TextFile(std::size_t size)
      : path_(cat(testing::TempDir(), "tessera_data_", ::getpid(), "_", size)) {
    std::ofstream out(path_, std::ios::binary);
    for (std::size_t i = 0; i < size; ++i) out.put(static_cast<char>(i % 251));
  }
  ~TextFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(ByteCorpus, ASampleHoldsConsecutiveBytesAndTheBytesAfterThem) {
  const TextFile file(5);
  const ByteCorpus corpus(file.path(), 4, 1);
  EXPECT_EQ(corpus.num_samples(), 1u);
  Tokens tokens(4), targets(4);
  corpus.fill(Samples{0}, tokens, targets);
  EXPECT_EQ(tokens, (Tokens{0, 1, 2, 3}));
  EXPECT_EQ(targets, (Tokens{1, 2, 3, 4}));
}

TEST(ByteCorpus, BytesAbove127StayPositive) {
  const TextFile file(251);
  const ByteCorpus corpus(file.path(), 250, 1);
  Tokens tokens(250), targets(250);
  corpus.fill(Samples{0}, tokens, targets);
  EXPECT_EQ(targets.back(), 250);
}

TEST(ByteCorpus, EverySampleIsReadOncePerEpochAndEpochsDiffer) {
  const TextFile file(8 * 100 + 1 + 7);  // the last 7 bytes are too few for a window
  const ByteCorpus corpus(file.path(), 8, 3);
  ASSERT_EQ(corpus.num_samples(), 100u);
  std::vector<Samples> orders(2);
  for (std::uint64_t i = 0; i < 200; ++i) orders[i / 100].push_back(corpus.offset_of(i));
  EXPECT_NE(orders[0], orders[1]);
  for (const Samples& order : orders) {
    const std::set<std::uint64_t> seen(order.begin(), order.end());
    EXPECT_EQ(seen.size(), 100u);
    EXPECT_EQ(*seen.rbegin(), 99u * 8);
    EXPECT_TRUE(std::ranges::all_of(seen, [](std::uint64_t offset) { return offset % 8 == 0; }));
    EXPECT_FALSE(std::ranges::is_sorted(order));
  }
}

TEST(ByteCorpus, TheOrderDependsOnTheSeedAlone) {
  const TextFile file(801);
  const ByteCorpus a(file.path(), 8, 3), same(file.path(), 8, 3), other(file.path(), 8, 4);
  int differing = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(a.offset_of(i), same.offset_of(i));
    differing += a.offset_of(i) != other.offset_of(i);
  }
  EXPECT_GT(differing, 80);
}

// What runs of earlier versions have read must be read again when they go on.
TEST(ByteCorpus, TheOrderIsThatOfEarlierVersions) {
  const TextFile file(801);
  const ByteCorpus corpus(file.path(), 8, 3);
  Samples offsets;
  for (const std::uint64_t index : {0, 1, 2, 99, 100, 1000}) offsets.push_back(corpus.offset_of(index));
  EXPECT_EQ(offsets, (Samples{64, 496, 264, 320, 248, 16}));
}

TEST(ByteCorpus, SaysInWordsWhatIsWrongWithTheFile) {
  const TextFile file(8), empty(0);
  const auto message = [](const std::string& path) -> std::string {
    try {
      ByteCorpus(path, 8, 1);
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message("/no/such/file"), testing::HasSubstr("'/no/such/file': No such file"));
  EXPECT_THAT(message(testing::TempDir()), testing::HasSubstr("Is a directory"));
  EXPECT_THAT(message(file.path()),
              testing::HasSubstr("has 8 bytes; a sample of sequence 8 needs at least 9"));
  EXPECT_THAT(message(empty.path()), testing::HasSubstr("has 0 bytes"));
}

TEST(ByteCorpus, AFileThatIsCutOffUnderTheReaderIsAUserError) {
  const TextFile file(801);
  const ByteCorpus corpus(file.path(), 8, 3);
  std::filesystem::resize_file(file.path(), 0);
  Tokens tokens(8), targets(8);
  EXPECT_THAT([&] { corpus.fill(Samples{0}, tokens, targets); },
              testing::ThrowsMessage<UserError>(testing::AllOf(
                  testing::HasSubstr(file.path()),
                  testing::HasSubstr("the file ends there, and it had 801 bytes when it was opened"))));
}

TEST(ByteCorpus, MaskingDependsOnTheSampleNotOnItsRow) {
  Tokens targets(12, 7);
  mask_every(3, Samples{3, 4, 5}, targets);
  EXPECT_EQ(targets, (Tokens{7, 7, 7, 7, -1, 7, 7, -1, -1, -1, 7, -1}));
  Tokens alone(4, 7);
  mask_every(3, Samples{5}, alone);
  EXPECT_EQ(alone, (Tokens{-1, -1, 7, -1}));
}

TEST(ByteCorpus, MaskingLeavesEverySampleATargetHoweverShort) {
  for (const std::size_t length : {1, 2, 3, 4, 5, 6})
    for (std::uint64_t sample = 0; sample < 30; ++sample) {
      Tokens targets(length, 7);
      mask_every(5, Samples{sample}, targets);
      EXPECT_GT(std::ranges::count(targets, 7), 0) << "sample " << sample << " of " << length << " tokens";
    }
}

TEST(BatchPlan, EveryLayoutReadsTheSameSamplesInTheSameGlobalOrder) {
  const std::int64_t global_batch = 13;
  for (const std::int64_t dp : {1, 2, 3, 4, 8, 16})
    for (const std::int64_t micro_batch : {1, 2, 3, 5, 13, 20}) {
      Samples all;
      for (std::int64_t m = 0; m * dp * micro_batch < global_batch; ++m)
        for (std::int64_t rank = 0; rank < dp; ++rank)
          std::ranges::copy(samples_of(100, global_batch, rank, dp, micro_batch, m), std::back_inserter(all));
      Samples expected(13);
      for (std::uint64_t i = 0; i < 13; ++i) expected[i] = 100 + i;
      EXPECT_EQ(all, expected) << "dp " << dp << ", micro-batch " << micro_batch;
    }
}

TEST(BatchPlan, TheLastMicroBatchMayBeShortOrEmpty) {
  EXPECT_EQ(samples_of(0, 5, 0, 2, 2, 0), (Samples{0, 1}));
  EXPECT_EQ(samples_of(0, 5, 1, 2, 2, 0), (Samples{2, 3}));
  EXPECT_EQ(samples_of(0, 5, 0, 2, 2, 1), (Samples{4}));
  EXPECT_EQ(samples_of(0, 5, 1, 2, 2, 1), Samples{});
  EXPECT_EQ(samples_of(0, 5, 1, 2, 2, 2), Samples{});
  EXPECT_THROW(samples_of(0, 5, 2, 2, 2, 0), Bug);
}

TEST(BatchPlan, UnequalNumbersOfMicroBatchesShareTheBatchOnce) {
  const std::vector<std::int64_t> by_rank = {3, 1, 2};
  EXPECT_EQ(samples_of(10, 0, by_rank, 2, 0), (Samples{10, 11}));
  EXPECT_EQ(samples_of(10, 1, by_rank, 2, 0), (Samples{12, 13}));
  EXPECT_EQ(samples_of(10, 2, by_rank, 2, 1), (Samples{18, 19}));
  EXPECT_EQ(samples_of(10, 0, by_rank, 2, 2), (Samples{20, 21}));
  EXPECT_EQ(samples_of(10, 1, by_rank, 2, 1), Samples{});
  Samples all;
  for (std::int64_t rank = 0; rank < 3; ++rank)
    for (std::int64_t micro = 0; micro < 3; ++micro)
      std::ranges::copy(samples_of(0, rank, by_rank, 2, micro), std::back_inserter(all));
  std::ranges::sort(all);
  Samples expected(12);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
  // Equal numbers are dealt as ever.
  const std::vector<std::int64_t> even = {2, 2};
  for (std::int64_t micro = 0; micro < 2; ++micro)
    for (std::int64_t rank = 0; rank < 2; ++rank)
      EXPECT_EQ(samples_of(0, rank, even, 3, micro), samples_of(0, 12, rank, 2, 3, micro));
}

}  // namespace
}  // namespace tessera::data
