// Ranks that find out who is still there: the same for all, whoever dies or comes when. Under 1 s.
#include "tessera/launch/store/meeting.hpp"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tessera/base/error.hpp"
#include "tessera/launch/store/key_client.hpp"
#include "tessera/launch/store/key_server.hpp"

namespace tessera::launch {
namespace {

using namespace std::chrono_literals;
using People = std::vector<Attendant>;

class Meeting : public ::testing::Test {
 protected:
  std::unique_ptr<KeyClient> come(int rank, bool is_newcomer = false) {
    return std::make_unique<KeyClient>(server_.connect({rank, is_newcomer}), rank);
  }
  static std::future<People> meet(KeyClient& client, std::vector<int> expected, const std::string& brought,
                                  bool admits = false) {
    return std::async(std::launch::async, [&client, expected, brought, admits] {
      return client.meet(expected, brought, admits);
    });
  }
  static std::future<People> join(KeyClient& client, std::vector<int> together) {
    return std::async(std::launch::async, [&client, together] { return client.join(together); });
  }
  static bool waits(std::future<People>& future) {
    return future.wait_for(30ms) == std::future_status::timeout;
  }

  KeyServer server_{{.may_be_lost = [](int rank) { return rank > 0; }}};
};

TEST_F(Meeting, EndsWhenAllHaveComeAndTellsWhatTheyBrought) {
  const auto a = come(0), b = come(1);
  auto first = meet(*a, {0, 1}, "x");
  EXPECT_TRUE(waits(first));
  auto second = meet(*b, {0, 1}, std::string("\0y", 2));
  const People expected = {{0, "x"}, {1, std::string("\0y", 2)}};
  EXPECT_EQ(first.get(), expected);
  EXPECT_EQ(second.get(), expected);
}

// A process that dies says no goodbye: its end of the connection is closed.
TEST_F(Meeting, EndsWithoutThoseThatAreGone) {
  const auto a = come(0), b = come(1);
  auto c = come(2);
  Descriptor died = server_.connect();
  const std::string hello = encode(Request{.kind = Request::Kind::hello, .rank = 3});
  ASSERT_EQ(write(died.number(), hello.data(), hello.size()), static_cast<ssize_t>(hello.size()));
  auto first = meet(*a, {0, 1, 2, 3}, "x"), second = meet(*b, {0, 1, 2, 3}, "y");
  EXPECT_TRUE(waits(first));
  died = Descriptor();
  EXPECT_TRUE(waits(first));
  c.reset();
  const People expected = {{0, "x"}, {1, "y"}};
  EXPECT_EQ(first.get(), expected);
  EXPECT_EQ(second.get(), expected);
}

TEST_F(Meeting, DoesNotListWhoCameAndWasGoneBeforeItsEnd) {
  const auto a = come(0), b = come(1);
  Descriptor died = server_.connect();
  const std::string words =
      encode(Request{.kind = Request::Kind::hello, .rank = 2}) +
      encode(Request{.kind = Request::Kind::meet, .report = "z", .keys = {"0", "1", "2"}});
  ASSERT_EQ(write(died.number(), words.data(), words.size()), static_cast<ssize_t>(words.size()));
  auto first = meet(*a, {0, 1, 2}, "x");
  EXPECT_TRUE(waits(first));
  died = Descriptor();
  EXPECT_TRUE(waits(first));
  auto second = meet(*b, {0, 1, 2}, "y");
  EXPECT_EQ(first.get(), (People{{0, "x"}, {1, "y"}}));
  second.get();
}

// A process may be over before it has said who it is.
TEST_F(Meeting, WaitsForThoseThatAreStillToComeUntilTheyAreGone) {
  const auto a = come(0);
  auto first = meet(*a, {0, 1}, "x");
  EXPECT_TRUE(waits(first));
  Descriptor other = server_.connect({.rank = 1});
  EXPECT_TRUE(waits(first));
  other = Descriptor();
  EXPECT_EQ(first.get(), (People{{0, "x"}}));
}

TEST_F(Meeting, AdmitsNewcomersWhenItSaysSoAndAllOfThemAreThere) {
  const auto a = come(0), late = come(1, true), later = come(2, true);
  auto newcomer = join(*late, {1, 2});
  EXPECT_EQ(a->meet({0}, "x", true), (People{{0, "x"}}));  // rank 2 has not asked yet
  auto other = join(*later, {1, 2});
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(a->meet({0}, "y", false), (People{{0, "y"}}));
  const People expected = {{0, "z"}, {1, "", true}, {2, "", true}};
  EXPECT_EQ(a->meet({0}, "z", true), expected);
  EXPECT_EQ(newcomer.get(), expected);
  EXPECT_EQ(other.get(), expected);
  // From then on they are waited for.
  auto next = meet(*a, {0, 1, 2}, "");
  EXPECT_TRUE(waits(next));
  auto next_of_late = meet(*late, {0, 1, 2}, ""), next_of_later = meet(*later, {0, 1, 2}, "");
  EXPECT_EQ(next.get().size(), 3);
  next_of_late.get(), next_of_later.get();
}

TEST_F(Meeting, SendsNewcomersAwayWhenNobodyIsLeft) {
  auto a = come(0);
  const auto late = come(1, true);
  auto newcomer = join(*late, {1});
  EXPECT_TRUE(waits(newcomer));
  a.reset();
  EXPECT_EQ(newcomer.get(), People());
}

TEST_F(Meeting, WhoeverConnectsToOneThatIsGoneOrMeetsIsTold) {
  const auto a = come(0), b = come(1);
  auto c = come(2);
  const auto connects = [&](int peer) {
    return std::async(std::launch::async, [&a, peer] { a->connect({{peer, cat("to ", peer)}}, 10s); });
  };
  auto to_gone = connects(2);
  EXPECT_EQ(to_gone.wait_for(30ms), std::future_status::timeout);
  c.reset();
  EXPECT_THROW(to_gone.get(), PeerLost);
  auto to_one_that_meets = connects(1);
  EXPECT_EQ(to_one_that_meets.wait_for(30ms), std::future_status::timeout);
  auto second = meet(*b, {0, 1}, "");
  EXPECT_THROW(to_one_that_meets.get(), PeerLost);
  EXPECT_EQ(a->meet({0, 1}, "", false).size(), 2);
  second.get();
}

TEST_F(Meeting, NewcomersConnectToEachOtherBeforeTheyAreLetIn) {
  const auto a = come(0);
  for (const int rank : {1, 2}) come(rank).reset();
  const auto b = come(1, true);
  Descriptor of_other = server_.connect({2, true});  // which is still loading
  auto one = std::async(std::launch::async, [&] { return b->connect({{2, "1-2"}}, 10s); });
  EXPECT_EQ(one.wait_for(30ms), std::future_status::timeout);
  KeyClient c(std::move(of_other), 2);
  EXPECT_EQ(c.connect({{1, "1-2"}}, 10s).size(), 1);
  EXPECT_EQ(one.get().size(), 1);
  // The others don't wait for one that is not let in yet.
  EXPECT_THROW(a->connect({{1, "0-1"}}, 10s), PeerLost);
}

TEST_F(Meeting, OfARankThatNobodyDoesWithoutIsLost) {
  const auto b = come(1);
  Descriptor died = server_.connect();
  const std::string hello = encode(Request{.kind = Request::Kind::hello, .rank = 0});
  ASSERT_EQ(write(died.number(), hello.data(), hello.size()), static_cast<ssize_t>(hello.size()));
  auto second = meet(*b, {0, 1}, "");
  EXPECT_TRUE(waits(second));
  died = Descriptor();
  EXPECT_THROW(second.get(), PeerLost);
}

TEST(MeetingWire, MalformedListsAreRefused) {
  const People people = {{0, "x"}, {12, "", true}};
  EXPECT_EQ(attendants_of(to_reply(people)), people);
  EXPECT_THROW(attendants_of({.texts = {"0", "x"}}), PeerLost);
  EXPECT_THROW(attendants_of({.texts = {"one", "x", ""}}), PeerLost);
}

}  // namespace
}  // namespace tessera::launch
