#include "tessera/train/servers/requests.hpp"

#include <gtest/gtest.h>

namespace tessera::train {
namespace {

using Taken = std::vector<std::pair<int, Ask>>;

Taken all_of(Requests& requests) {
  Taken out;
  while (const auto next = requests.take()) out.emplace_back(next->worker, next->ask);
  return out;
}

TEST(Requests, AreServedAsTheyCome) {
  Requests requests(3, std::nullopt);
  requests.ask(2, Ask::pull), requests.ask(0, Ask::pull), requests.ask(2, Ask::push);
  EXPECT_EQ(all_of(requests), (Taken{{2, Ask::pull}, {0, Ask::pull}, {2, Ask::push}}));
  EXPECT_EQ(requests.updates(2), 1);
  EXPECT_EQ(requests.ahead(2), 1);
}

TEST(Requests, NobodyBeginsWhoIsTooFarAhead) {
  Requests requests(2, 1);
  for (int i = 0; i < 2; ++i) requests.ask(0, Ask::pull), requests.ask(0, Ask::push);
  EXPECT_EQ(all_of(requests).size(), 4u);
  requests.ask(0, Ask::pull);  // two updates ahead
  EXPECT_TRUE(all_of(requests).empty());
  requests.ask(1, Ask::pull), requests.ask(1, Ask::push);
  EXPECT_EQ(all_of(requests), (Taken{{1, Ask::pull}, {1, Ask::push}, {0, Ask::pull}}));
}

TEST(Requests, WhoLeavesHoldsNobodyUp) {
  Requests requests(3, 0);
  requests.ask(0, Ask::pull), requests.ask(0, Ask::push), requests.ask(0, Ask::pull);
  requests.ask(1, Ask::pull), requests.ask(1, Ask::push), requests.ask(2, Ask::pull);
  EXPECT_EQ(all_of(requests).size(), 5u);  // all but the second pull of worker 0
  requests.remove(2);
  EXPECT_EQ(all_of(requests), (Taken{{0, Ask::pull}}));
  requests.remove(0), requests.remove(1);
  EXPECT_TRUE(requests.is_over());
}

}  // namespace
}  // namespace tessera::train
