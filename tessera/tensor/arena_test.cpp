#include "tessera/tensor/arena.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <thread>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/base/text.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::tensor {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

TEST(Heap, TakesTheBestFitAndJoinsWhatIsGivenBack) {
  Heap heap(64 * kMiB);
  void* const a = heap.take(3 * kMiB);
  void* const wall = heap.take(kMiB);
  void* const b = heap.take(2 * kMiB);
  void* const end = heap.take(kMiB);
  heap.give_back(a);
  heap.give_back(b);
  EXPECT_EQ(heap.take(2 * kMiB), b);  // the hole of 3 MiB is lower, but fits worse
  EXPECT_EQ(heap.take(2 * kMiB), a);
  heap.give_back(a);
  heap.give_back(b);
  heap.give_back(wall);
  EXPECT_EQ(heap.take(6 * kMiB), a);  // three neighbours became one
  heap.give_back(a);
  heap.give_back(end);
  EXPECT_EQ(heap.count().taken, 0);
  EXPECT_EQ(heap.count().growths, 1);
}

TEST(Heap, GrowsInStepsAndSaysWhenThereIsNoRoom) {
  Heap heap(64 * kMiB);
  EXPECT_EQ(heap.count().committed, 0);
  void* const block = heap.take(20 * kMiB);
  EXPECT_EQ(heap.count().committed, 32 * kMiB);
  EXPECT_NE(heap.take(40 * kMiB), nullptr);  // 12 MiB at the end are free, so 28 more will do
  EXPECT_EQ(heap.count().committed, 64 * kMiB);
  EXPECT_EQ(heap.take(8 * kMiB), nullptr);
  EXPECT_NE(heap.take(4 * kMiB), nullptr);
  heap.give_back(block);
  EXPECT_EQ(heap.take(20 * kMiB), block);
}

TEST(Heap, RefusesMemoryThatWasNotTaken) {
  Heap heap(64 * kMiB);
  char* const block = static_cast<char*>(heap.take(kMiB));
  EXPECT_THROW(heap.give_back(block + 64), Bug);
  heap.give_back(block);
  EXPECT_THROW(heap.give_back(block), Bug);
}

// Any order of taking and giving back: no two blocks share a byte, all are aligned, and at the end all is one
// again.
TEST(Heap, KeepsBlocksApartInAnyOrder) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    Heap heap(64 * kMiB);
    struct Held {
      char* block;
      std::int64_t bytes;
      char mark;
    };
    std::vector<Held> held;
    const auto give_back = [&](std::size_t which) {
      const Held h = held[which];
      for (std::int64_t i = 0; i < h.bytes; i += 4096) ASSERT_EQ(h.block[i], h.mark);
      ASSERT_EQ(h.block[h.bytes - 1], h.mark);
      heap.give_back(h.block);
      held[which] = held.back();
      held.pop_back();
    };
    for (std::uint64_t turn = 0; turn < 2000; ++turn) {
      const std::uint64_t drawn = random_bits(seed, 1, turn);
      if (!held.empty() && (held.size() > 40 || drawn % 5 < 2)) {
        give_back((drawn >> 8) % held.size());
        continue;
      }
      const auto bytes = static_cast<std::int64_t>(1 + (drawn >> 8) % (kMiB / 2));
      char* const block = static_cast<char*>(heap.take(bytes));
      ASSERT_NE(block, nullptr);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % Heap::kAlignment, 0u);
      held.push_back({block, bytes, static_cast<char>(turn)});
      std::memset(block, held.back().mark, static_cast<std::size_t>(bytes));
    }
    while (!held.empty()) give_back(0);
    const auto count = heap.count();
    EXPECT_EQ(count.taken, 0);
    EXPECT_NE(heap.take(count.committed), nullptr);  // in one piece
    EXPECT_EQ(heap.count().committed, count.committed);
  }
}

class Arena : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_arena(); }
};

TEST_F(Arena, CountsWhatAnAccountHolds) {
  Account account;
  const AccountScope scope(account);
  Tensor large = empty({kMiB}, at::kFloat), small = empty({3}, at::kFloat);
  EXPECT_EQ(account.live().total(), 4 * kMiB + 12);
  EXPECT_EQ(account.live().of(Category::other), 4 * kMiB + 12);
  large = Tensor();
  EXPECT_EQ(account.live().total(), 12);
  EXPECT_EQ(account.at_peak().total(), 4 * kMiB + 12);
  account.forget_peak();
  EXPECT_EQ(account.at_peak().total(), 12);
}

TEST_F(Arena, GivesBackToTheAccountThatTook) {
  Account mine, theirs;
  Tensor large, small;
  std::thread([&] {
    const AccountScope scope(theirs);
    large = empty({kMiB}, at::kFloat);
    small = empty({3}, at::kFloat);
  }).join();
  EXPECT_EQ(theirs.live().total(), 4 * kMiB + 12);
  const AccountScope scope(mine);
  large = Tensor();
  small = Tensor();
  EXPECT_EQ(theirs.live().total(), 0);
  EXPECT_EQ(mine.live().total(), 0);
}

TEST_F(Arena, OutlivesTheAccountOfItsMemory) {
  Tensor left;
  {
    const AccountScope scope{Account()};
    left = empty({kMiB}, at::kFloat);
  }
  left = Tensor();
}

TEST_F(Arena, KnowsWhatMemoryIsHeldAs) {
  Account account;
  const AccountScope scope(account);
  const auto take = [](Category category) {
    const CategoryScope as(category);
    return empty({kMiB}, at::kFloat);
  };
  const Tensor parameters = take(Category::parameters), small = empty({2}, at::kFloat);
  Tensor value = take(Category::tapes);
  EXPECT_EQ(account.live().of(Category::tapes), 4 * kMiB);
  hold_as(value.view({-1, 4}), Category::values);
  hold_as(small, Category::values);
  EXPECT_EQ(account.live().of(Category::tapes), 0);
  EXPECT_EQ(account.live().of(Category::values), 4 * kMiB + 8);
  hold_as(value, Category::host);
  EXPECT_EQ(account.live().total(), 4 * kMiB + 8);
  EXPECT_EQ(account.at_peak().of(Category::tapes), 4 * kMiB);  // as it was then
  value = Tensor();
  EXPECT_EQ(account.live().of(Category::host), 0);
}

TEST_F(Arena, LeavesMemoryOfOthersAlone) {
  Account account;
  const AccountScope scope(account);
  std::vector<float> memory(1 << 20);
  hold_as(view_of(memory.data(), {1 << 20}, at::kFloat), Category::values);
  hold_as(Tensor(), Category::values);
  EXPECT_EQ(account.live(), BytesHeld());
}

TEST_F(Arena, AsksTheSystemForNothingThatItHasHadBefore) {
  const auto work = [] {
    std::vector<Tensor> held;
    for (std::int64_t i = 1; i <= 40; ++i) held.push_back(empty({i * kMiB / 16}, at::kFloat));
  };
  work();
  const std::int64_t growths = arena_count().growths;
  for (int i = 0; i < 10; ++i) work();
  EXPECT_EQ(arena_count().growths, growths);
}

TEST_F(Arena, SaysWhatItCouldNotAllocate) {
  const auto ask = [] { return empty({std::int64_t{1} << 46}, at::kFloat); };
  Account account;
  const AccountScope scope(account);
  EXPECT_ANY_THROW(ask());
  EXPECT_EQ(account.live(), BytesHeld());
}

// The range is reserved without access, so a limit on data sees only what is used.
TEST_F(Arena, CountsAgainstALimitOnlyWhatIsUsed) {
  rlimit before{};
  getrlimit(RLIMIT_DATA, &before);
  const rlimit tight{std::min<rlim_t>(before.rlim_max, rlim_t{2} << 30), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_DATA, &tight), 0);
  const Tensor fits = empty({16 * kMiB}, at::kFloat);
  EXPECT_ANY_THROW(empty({1024 * kMiB}, at::kFloat));
  setrlimit(RLIMIT_DATA, &before);
  EXPECT_TRUE(fits.defined());
}

}  // namespace
}  // namespace tessera::tensor
