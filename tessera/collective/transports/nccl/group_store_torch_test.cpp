#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tessera/collective/transports/nccl/group_store.hpp"

namespace tessera::collective {
namespace {

using Bytes = std::vector<std::uint8_t>;
using std::chrono::milliseconds;

TEST(GroupStore, MembersReadWhatAnotherOneSet) {
  MemoryKeyStore keys;
  const auto one = group_store(keys, "dp/", milliseconds(1000)), other = one->clone();
  one->set("id", Bytes{1, 2, 255});
  EXPECT_FALSE(other->check({"id"}));
  other->wait({"id"});
  EXPECT_TRUE(other->check({"id"}));
  EXPECT_EQ(other->get("id"), (Bytes{1, 2, 255}));
  EXPECT_EQ(keys.put_and_get({}, {"dp/id"}, milliseconds(0)).at(0), "\x01\x02\xff");
}

TEST(GroupStore, CountsTheKeysThatThisProcessHasSeen) {
  MemoryKeyStore keys;
  const auto store = group_store(keys, "dp/", milliseconds(1000));
  EXPECT_EQ(store->getNumKeys(), 0);
  store->set("id", Bytes{1});
  store->set("id", Bytes{2});
  EXPECT_EQ(store->add("groups", 1), 1);
  EXPECT_EQ(store->add("groups", 2), 3);
  EXPECT_EQ(store->getNumKeys(), 2);
  EXPECT_FALSE(store->deleteKey("id"));
}

}  // namespace
}  // namespace tessera::collective
