#include "tessera/collective/key_batch.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "tessera/base/error.hpp"

namespace tessera::collective {
namespace {

using namespace std::chrono_literals;

// Runs `num_threads` users of a batch, each of which retires at its end.
int num_exchanges_of(KeyStore& store, int num_threads, const std::function<void(KeyBatch&, int)>& user,
                     std::chrono::milliseconds timeout = 10s) {
  KeyBatch batch(store, num_threads, timeout);
  std::vector<std::thread> threads;
  for (int i = 0; i < num_threads; ++i)
    threads.emplace_back([&, i] {
      user(batch, i);
      batch.retire();
    });
  for (auto& thread : threads) thread.join();
  return batch.num_exchanges();
}

TEST(KeyBatch, TurnsAllWaitsOfAllThreadsIntoOneExchange) {
  for (const int num_threads : {1, 2, 10}) {
    MemoryKeyStore store;
    std::vector<int> num_exchanges(2);
    const auto side = [&](int self) {
      num_exchanges[static_cast<std::size_t>(self)] =
          num_exchanges_of(store, num_threads, [&](KeyBatch& batch, int i) {
            batch.put(cat("key ", i, "/", self), cat("from ", self));
            EXPECT_EQ(batch.get({cat("key ", i, "/", 1 - self)})[0], cat("from ", 1 - self));
          });
    };
    std::thread other(side, 1);
    side(0);
    other.join();
    EXPECT_EQ(num_exchanges, (std::vector<int>{1, 1})) << num_threads << " threads";
  }
}

TEST(KeyBatch, AsksForExpectedKeysAheadOfTheirReaders) {
  MemoryKeyStore store;
  store.exchange({{"a", "1"}, {"b", "2"}, {"c", "3"}}, {}, 1s);
  const int num_exchanges = num_exchanges_of(store, 1, [](KeyBatch& batch, int) {
    batch.expect({"a", "b", "c"});
    EXPECT_EQ(batch.get({"a"})[0], "1");
    EXPECT_TRUE(batch.has({"b", "c"}));
    EXPECT_EQ(batch.get({"c", "b"}), (std::vector<std::string>{"3", "2"}));
  });
  EXPECT_EQ(num_exchanges, 1);
}

TEST(KeyBatch, DeliversPutsThatNobodyWaitsAfter) {
  MemoryKeyStore store;
  EXPECT_EQ(num_exchanges_of(store, 3, [](KeyBatch& batch, int i) { batch.put(cat("last ", i), "x"); }), 1);
  EXPECT_EQ(store.exchange({}, {"last 0", "last 1", "last 2"}, 1s), std::vector<std::string>(3, "x"));
}

TEST(KeyBatch, AThreadThatRetiresLetsTheOthersGoOn) {
  MemoryKeyStore store;
  store.exchange({{"a", "1"}}, {}, 1s);
  num_exchanges_of(store, 2, [](KeyBatch& batch, int i) {
    if (i == 1) return std::this_thread::sleep_for(20ms);
    EXPECT_EQ(batch.get({"a"})[0], "1");
  });
}

TEST(KeyBatch, TellsEveryWaiterThatAPeerIsMissing) {
  MemoryKeyStore store;
  const auto user = [](KeyBatch& batch, int i) { EXPECT_THROW(batch.get({cat("never ", i)}), PeerLost); };
  EXPECT_EQ(num_exchanges_of(store, 3, user, 30ms), 1);
}

}  // namespace
}  // namespace tessera::collective
