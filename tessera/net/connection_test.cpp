#include "tessera/net/connection.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/net/socket_loop.hpp"

namespace tessera::net {
namespace {

using namespace std::chrono_literals;

using Bytes = std::shared_ptr<std::vector<char>>;

Bytes bytes(std::size_t count, char value = 0) { return std::make_shared<std::vector<char>>(count, value); }
Buffer buffer(const Bytes& of) { return {of->data(), of->size(), of}; }

// Two ends, each with a loop of its own, as in two processes.
struct Ends {
  Ends() {
    auto [a, b] = connected_pair();
    one = std::make_shared<Connection>(std::move(a), "rank 1");
    two = std::make_shared<Connection>(std::move(b), "rank 0");
    loops[0].add(one);
    loops[1].add(two);
  }
  SocketLoop loops[2];
  std::shared_ptr<Connection> one, two;
};

std::string failure_of(const TransferPtr& transfer) {
  try {
    transfer->wait(10s);
  } catch (const PeerLost& error) {
    return error.what();
  }
  return "";
}

TEST(Connection, ASendIsHeldUntilTheOtherEndWantsItAndNoLonger) {
  Ends ends;
  const Bytes sent = bytes(3 << 20, 'x');
  const auto send = ends.one->send(7, buffer(sent));
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(send->is_done());
  EXPECT_GT(sent.use_count(), 1);
  const Bytes got = bytes(3 << 20);
  ends.two->receive(7, buffer(got))->wait(10s);
  send->wait(10s);
  EXPECT_EQ(*got, *sent);
  EXPECT_EQ(sent.use_count(), 1);
}

TEST(Connection, EqualTagsMatchInOrderAndOthersDoNotWaitForEachOther) {
  Ends ends;
  std::vector<TransferPtr> transfers;
  const Bytes first = bytes(5), second = bytes(6), other = bytes(7), none = bytes(0);
  transfers.push_back(ends.two->receive(1, buffer(first)));
  transfers.push_back(ends.two->receive(1, buffer(second)));
  transfers.push_back(ends.one->send(2, buffer(bytes(7, 'o'))));
  transfers.push_back(ends.one->send(1, buffer(bytes(5, 'f'))));
  transfers.push_back(ends.one->send(1, buffer(bytes(6, 's'))));
  transfers.push_back(ends.one->send(3, buffer(none)));
  transfers.push_back(ends.two->receive(3, {}));
  transfers.push_back(ends.two->receive(2, buffer(other)));
  for (const auto& transfer : transfers) transfer->wait(10s);
  EXPECT_EQ(*first, *bytes(5, 'f'));
  EXPECT_EQ(*second, *bytes(6, 's'));
  EXPECT_EQ(*other, *bytes(7, 'o'));
}

// Both directions, many sizes and tags, begun in another order at either end: seeded, and said when it fails.
TEST(Connection, RandomTransfersInBothDirectionsArriveWhole) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    Ends ends;
    struct Message {
      int tag;
      bool from_one;
      Bytes sent, got;
    };
    std::mt19937 random(seed);
    std::vector<Message> messages;
    for (int i = 0; i < 300; ++i) {
      const std::size_t size = random() % 3 == 0 ? random() % 600'000 : random() % 64;
      auto sent = bytes(size);
      std::iota(sent->begin(), sent->end(), static_cast<char>(random()));
      messages.push_back({i, random() % 2 == 0, sent, bytes(size)});
    }
    const auto run = [&](Connection& end, bool is_one) {
      std::vector<std::size_t> order(messages.size());
      std::iota(order.begin(), order.end(), 0);
      std::mt19937 own(seed + (is_one ? 100 : 200));
      std::shuffle(order.begin(), order.end(), own);
      std::vector<TransferPtr> transfers;
      for (const std::size_t i : order) {
        const auto& m = messages[i];
        transfers.push_back(m.from_one == is_one ? end.send(m.tag, buffer(m.sent))
                                                 : end.receive(m.tag, buffer(m.got)));
      }
      for (const auto& transfer : transfers) transfer->wait(30s);
    };
    std::thread other([&] { run(*ends.two, false); });
    run(*ends.one, true);
    other.join();
    for (const auto& m : messages) EXPECT_EQ(*m.got, *m.sent) << m.tag;
  }
}

TEST(Connection, TheEndOfAPeerFailsWhatIsUnderWayAndWhatComesLater) {
  Ends ends;
  const auto send = ends.one->send(1, buffer(bytes(4)));
  const auto receive = ends.one->receive(2, buffer(bytes(4)));
  ends.loops[1].remove(ends.two);
  ends.two.reset();
  EXPECT_EQ(failure_of(send), "rank 1 has closed the connection");
  EXPECT_EQ(failure_of(receive), "rank 1 has closed the connection");
  EXPECT_EQ(failure_of(ends.one->send(1, {})), "rank 1 has closed the connection");
}

TEST(Connection, AnAbortFailsBothEnds) {
  Ends ends;
  const auto here = ends.one->receive(1, buffer(bytes(4))), there = ends.two->receive(1, buffer(bytes(4)));
  ends.loops[0].abort("enough");
  EXPECT_EQ(failure_of(here), "enough");
  EXPECT_NE(failure_of(there), "");
}

TEST(Connection, AnotherSizeThanExpectedIsAnErrorOfBoth) {
  Ends ends;
  const auto receive = ends.two->receive(1, buffer(bytes(4)));
  const auto send = ends.one->send(1, buffer(bytes(5)));
  EXPECT_EQ(failure_of(send), "rank 1 expects 4 bytes where 5 are sent (tag 1)");
  EXPECT_NE(failure_of(receive), "");
}

TEST(Connection, WhatIsNoMessageEndsIt) {
  auto [ours, theirs] = connected_pair();
  SocketLoop loop;
  const auto connection = std::make_shared<Connection>(std::move(ours), "rank 1");
  loop.add(connection);
  const auto receive = connection->receive(1, buffer(bytes(4)));
  const std::string garbage(64, 'g');
  ASSERT_EQ(send(theirs.number(), garbage.data(), garbage.size(), 0), std::ssize(garbage));
  EXPECT_NE(failure_of(receive).find("sent what nobody expects"), std::string::npos);
}

TEST(Transfer, SaysHowLongItWasWaitedFor) {
  Ends ends;
  const auto receive = ends.one->receive(1, buffer(bytes(4)));
  try {
    receive->wait(50ms);
    FAIL();
  } catch (const PeerLost& error) {
    EXPECT_STREQ(error.what(), "no answer for 0.05 s");
  }
}

}  // namespace
}  // namespace tessera::net
