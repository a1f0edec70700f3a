#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <optional>
#include <thread>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/launch/store/key_client.hpp"
#include "tessera/launch/store/key_server.hpp"

namespace tessera::launch {
namespace {

using namespace std::chrono_literals;

std::string lost_words(const std::function<void()>& action) {
  try {
    action();
  } catch (const PeerLost& error) {
    return error.what();
  }
  return "(nothing was lost)";
}

void send_bytes(const Descriptor& socket, const std::string& bytes) {
  send(socket.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

// What the server says before it closes its side.
std::optional<Reply> last_words(const Descriptor& socket) {
  std::string in;
  char buffer[4096];
  for (ssize_t count; (count = recv(socket.number(), buffer, sizeof(buffer), 0)) > 0;)
    in.append(buffer, static_cast<std::size_t>(count));
  return in.size() < kLengthBytes ? std::nullopt : parse_reply(std::string_view(in).substr(kLengthBytes));
}

TEST(Wire, MessagesReadBackEqual) {
  const Request request{Request::Kind::report,
                        -3,
                        std::string("\0r", 2),
                        -7,
                        {{"a", std::string("\0b", 2)}, {"", ""}},
                        {"k", "l"}};
  EXPECT_EQ(parse_request(encode(request).substr(kLengthBytes)), request);
  const Reply reply{Reply::Kind::missing, {"x", ""}};
  EXPECT_EQ(parse_reply(encode(reply).substr(kLengthBytes)), reply);
  EXPECT_EQ(body_bytes(encode(reply)), encode(reply).size() - kLengthBytes);
}

TEST(Wire, CutOrLengthenedBodiesAreMalformed) {
  const std::string body =
      encode(Request{Request::Kind::exchange, 1, "r", 5, {{"a", "b"}}, {"k"}}).substr(kLengthBytes);
  for (std::size_t size = 0; size < body.size(); ++size)
    EXPECT_FALSE(parse_request(body.substr(0, size))) << size;
  EXPECT_TRUE(parse_request(body));
  EXPECT_FALSE(parse_request(body + '\0'));
  EXPECT_FALSE(parse_request('\x09' + body.substr(1)));
}

TEST(Wire, TooLongMessagesAreNotSent) {
  EXPECT_THROW(encode(Reply{Reply::Kind::values, {std::string(kMaxBodyBytes, 'x')}}), UserError);
}

TEST(Rendezvous, ExchangePutsAndWaitsForAllKeysInOneCall) {
  KeyServer server;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 8; ++rank)
    ranks.emplace_back([&, rank] {
      KeyClient client(server.connect(), rank);
      std::vector<std::string> wanted, expected;
      for (int peer = 7; peer >= 0; --peer) {
        wanted.push_back(cat("key ", peer));
        expected.push_back(cat("value ", peer));
      }
      EXPECT_EQ(client.put_and_get({{cat("key ", rank), cat("value ", rank)}}, wanted, 10s), expected);
    });
  for (auto& rank : ranks) rank.join();
  KeyClient client(server.connect(), 0);
  EXPECT_EQ(client.put_and_get({}, {"key 3", "key 3"}, 1s), (std::vector<std::string>{"value 3", "value 3"}));
  EXPECT_EQ(client.put_and_get({{"only put", ""}}, {}, 1s), std::vector<std::string>{});
}

TEST(Rendezvous, AnExchangeThatTimedOutDoesNotCountForTheNext) {
  KeyServer server;
  KeyClient waits(server.connect(), 0), writes(server.connect(), 1);
  EXPECT_EQ(lost_words([&] {
              waits.put_and_get({}, {"a", "b", "b"}, 30ms);
            }),
            "no peer wrote a, b, b within 30 ms");
  std::thread peer([&] {
    std::this_thread::sleep_for(20ms);
    for (const char* key : {"a", "b", "c"}) writes.put_and_get({{key, key}}, {}, 1s);
  });
  EXPECT_EQ(waits.put_and_get({}, {"b", "c", "c"}, 10s), (std::vector<std::string>{"b", "c", "c"}));
  peer.join();
}

TEST(Rendezvous, WaitersCostNothingWhileOthersTalk) {
  KeyServer server;
  std::vector<std::string> wanted;
  for (int i = 0; i < 100'000; ++i) wanted.push_back(cat("job/0/group/", i));
  std::thread waiting([&] {
    KeyClient client(server.connect(), 0);
    EXPECT_EQ(client.put_and_get({}, wanted, 60s).size(), wanted.size());
  });
  KeyClient talks(server.connect(), 0);
  KeyValues all;
  for (const auto& key : wanted) all.emplace_back(key, "");
  all.pop_back();
  talks.put_and_get(all, {}, 10s);
  const double start_seconds = now_seconds();
  for (int i = 0; i < 1000; ++i) talks.put_and_get({{"other", ""}}, {"other"}, 10s);
  // A look through all that is waited for, at each message, would take half a minute.
  EXPECT_LT(now_seconds() - start_seconds, 5);
  talks.put_and_get({{wanted.back(), ""}}, {}, 10s);
  waiting.join();
}

TEST(Rendezvous, LargeValuesPassInPieces) {
  KeyServer server;
  KeyClient writer(server.connect(), 0), reader(server.connect(), 1);
  const std::string large(20 << 20, 'x');
  writer.put_and_get({{"large", large}}, {}, 1s);
  EXPECT_EQ(reader.put_and_get({}, {"large", "large"}, 10s), (std::vector<std::string>{large, large}));
}

TEST(Rendezvous, KeysThatDontComeInTimeAreNamed) {
  KeyServer server;
  KeyClient client(server.connect(), 0);
  const auto words = lost_words([&] { client.put_and_get({{"a", "1"}}, {"a", "b", "c"}, 30ms); });
  EXPECT_EQ(words, "no peer wrote b, c within 30 ms");
  EXPECT_EQ(client.put_and_get({}, {"a"}, 1s)[0], "1");
}

std::string hello(int rank) { return encode(Request{.kind = Request::Kind::hello, .rank = rank}); }

TEST(Rendezvous, ARankThatBreaksOffEndsItsPeersWaits) {
  std::promise<int> lost;
  KeyServer server({.on_lost = [&](int rank) { lost.set_value(rank); }});
  std::thread waiting([&] {
    KeyClient client(server.connect(), 0);
    EXPECT_EQ(lost_words([&] { client.put_and_get({}, {"never"}, 60s); }),
              "rank 3's connection to the store broke off");
    EXPECT_NE(lost_words([&] { client.put_and_get({}, {}, 1s); }), "(nothing was lost)");
  });
  send_bytes(server.connect(), hello(3));
  EXPECT_EQ(lost.get_future().get(), 3);
  waiting.join();
}

TEST(Rendezvous, ARankThatSaysGoodbyeIsNotLost) {
  KeyServer server;
  KeyClient stays(server.connect(), 0);
  { KeyClient(server.connect(), 1).put_and_get({{"a", "1"}}, {}, 1s); }
  EXPECT_EQ(lost_words([&] { stays.put_and_get({}, {"never"}, 50ms); }), "no peer wrote never within 50 ms");
}

TEST(Rendezvous, AnAbortedJobTellsThoseWhoWaitAndThoseWhoComeLater) {
  KeyServer server;
  std::thread waiting([&] {
    KeyClient client(server.connect(), 0);
    EXPECT_EQ(lost_words([&] { client.put_and_get({}, {"never"}, 60s); }), "rank 3 failed");
  });
  std::this_thread::sleep_for(20ms);
  server.abort("rank 3 failed");
  waiting.join();
  KeyClient late(server.connect(), 0);
  EXPECT_EQ(lost_words([&] { late.put_and_get({}, {}, 1s); }), "rank 3 failed");
}

TEST(Rendezvous, AServerThatEndsIsTold) {
  auto server = std::make_unique<KeyServer>();
  KeyClient client(server->connect(), 0);
  server.reset();
  EXPECT_NE(lost_words([&] { client.put_and_get({}, {"a"}, 1s); }).find("launcher is gone"),
            std::string::npos);
}

TEST(Rendezvous, ReportsReachTheServerAndBringBackWhyTheJobWasAborted) {
  std::mutex mutex;
  std::vector<std::pair<int, std::string>> reports;
  KeyServer server({.on_report = [&](int rank, std::string_view bytes) {
    std::scoped_lock lock(mutex);
    reports.emplace_back(rank, bytes);
  }});
  KeyClient two(server.connect(), 2), five(server.connect(), 5);
  EXPECT_EQ(two.report("step 7", 10s), std::nullopt);
  EXPECT_EQ(five.report(std::string("\0", 1), 10s), std::nullopt);
  server.abort("rank 5 hangs");
  EXPECT_EQ(two.report("", 10s), "rank 5 hangs");
  std::scoped_lock lock(mutex);
  EXPECT_EQ(reports,
            (std::vector<std::pair<int, std::string>>{{2, "step 7"}, {5, std::string("\0", 1)}, {2, ""}}));
}

TEST(Rendezvous, ReportsPassWhileAnExchangeOfTheSameRankWaits) {
  KeyServer server;
  KeyClient exchanges(server.connect(), 0), reports(server.connect(), 0);
  std::thread waiting([&] { exchanges.put_and_get({}, {"late"}, 60s); });
  EXPECT_EQ(reports.report("waiting", 10s), std::nullopt);
  reports.put_and_get({{"late", ""}}, {}, 1s);
  waiting.join();
}

// A folder of its own, and the path of a socket in it.
class ListenerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = (std::filesystem::temp_directory_path() / "rendezvous_XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    path_ = folder + "/keys";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Descriptor come_in() const { return connect_to(path_); }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(ListenerTest, ClosesAndLeavesNoFileOnceAllHaveComeIn) {
  KeyServer server;
  server.open(unix_listener(path_, geteuid()), {0, 1});
  KeyClient first(come_in(), 0);
  first.put_and_get({}, {}, 1s);
  EXPECT_TRUE(std::filesystem::exists(path_));
  KeyClient second(come_in(), 1);
  second.put_and_get({}, {}, 1s);
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_FALSE(come_in());
  first.put_and_get({{"a", "1"}}, {}, 1s);
  EXPECT_EQ(second.put_and_get({}, {"a"}, 1s)[0], "1");
}

TEST_F(ListenerTest, ManyStrangersNeitherEnterNorKeepARankOut) {
  KeyServer server;
  server.open(unix_listener(path_, geteuid()), {0, 1});
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 300; ++i) strangers.push_back(come_in());
  KeyClient first(come_in(), 0);
  EXPECT_EQ(first.put_and_get({{"a", "1"}}, {"a"}, 5s)[0], "1");
  // The oldest have lost their place.
  char byte;
  EXPECT_EQ(recv(strangers[0].number(), &byte, 1, 0), 0);
  EXPECT_EQ(recv(strangers[299].number(), &byte, 1, MSG_DONTWAIT), -1);
}

TEST_F(ListenerTest, AStrangerWhoSaysNothingIsSentAwayInTime) {
  KeyServer server({}, {.seconds = 0.1});
  server.open(unix_listener(path_, geteuid()), {0, 1});
  KeyClient member(come_in(), 0);
  const Descriptor stranger = come_in();
  const double start_seconds = now_seconds();
  char byte;
  EXPECT_EQ(recv(stranger.number(), &byte, 1, 0), 0);
  EXPECT_LT(now_seconds() - start_seconds, 5);
  EXPECT_EQ(member.put_and_get({{"a", "1"}}, {"a"}, 1s)[0], "1");  // who has introduced itself stays
}

TEST_F(ListenerTest, AStrangerWhoSaysMuchButNoHelloIsRefused) {
  KeyServer server;
  server.open(unix_listener(path_, geteuid()), {0});
  const Descriptor stranger = come_in();
  send_bytes(stranger, encode(Request{.puts = {{"a", "1"}}}));
  EXPECT_EQ(last_words(stranger), (Reply{Reply::Kind::refused, {"a hello must come first, and once"}}));
  const Descriptor loud = come_in();
  send_bytes(loud, encode(Request{.kind = Request::Kind::hello, .report = std::string(5000, 'x')}));
  EXPECT_EQ(last_words(loud)->texts[0].substr(0, 12), "a message of");
}

TEST_F(ListenerTest, AServerWithoutDescriptorsTellsInsteadOfSpinning) {
  KeyServer server;
  server.open(unix_listener(path_, geteuid()), {0, 1});
  KeyClient member(come_in(), 0);
  member.put_and_get({}, {}, 1s);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(0);
  close(next);
  // One more, which the client takes before the server can.
  const rlimit scarce{static_cast<rlim_t>(next) + 1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &scarce), 0);
  {
    KeyClient late(come_in(), 1);
    EXPECT_EQ(lost_words([&] { member.put_and_get({}, {"never"}, 5s); }),
              "the key server cannot admit another rank: Too many open files");
    EXPECT_NE(lost_words([&] { late.put_and_get({}, {}, 5s); }), "(nothing was lost)");
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(ListenerTest, ClientsOfAnotherUserAreRefused) {
  KeyServer server;
  server.open(unix_listener(path_, geteuid() + 1), {0});
  KeyClient client(come_in(), 0);
  EXPECT_NE(
      lost_words([&] { client.put_and_get({}, {"a"}, 1s); }).find("refused: the key server serves user"),
      std::string::npos);
}

TEST_F(ListenerTest, VisitorsWhoAreGoneBeforeTheyAreRefusedDoNoHarm) {
  KeyServer server;
  server.open(unix_listener(path_, geteuid() + 1), {0});
  KeyClient member(server.connect(), 1);
  for (int round = 0; round < 200; ++round) {
    come_in();
    member.put_and_get({}, {}, 5s);
  }
}

TEST_F(ListenerTest, ARankThatComesAnewTakesItsOldPlace) {
  KeyServer server;
  server.open(unix_listener(path_, geteuid()), {1, 1, 2});
  { KeyClient(come_in(), 1).put_and_get({}, {}, 1s); }
  KeyClient first(come_in(), 1), second(come_in(), 1);
  second.put_and_get({}, {}, 1s);
  EXPECT_EQ(server.wait_until_come(0ms), std::vector{2});
  KeyClient twin(come_in(), 1);
  EXPECT_NE(
      lost_words([&] { twin.put_and_get({}, {}, 1s); }).find("rank 1 is awaited. Was it started twice?"),
      std::string::npos);
  EXPECT_TRUE(twin.has_answered());
  KeyClient last(come_in(), 2);
  EXPECT_EQ(server.wait_until_come(10s), std::vector<int>{});
}

TEST_F(ListenerTest, WaitingForRanksEndsWhenTheJobIsLost) {
  KeyServer server;
  server.open(unix_listener(path_, geteuid()), {1});
  std::thread waiting([&] { EXPECT_EQ(lost_words([&] { server.wait_until_come(60s); }), "rank 3 failed"); });
  server.abort("rank 3 failed");
  waiting.join();
}

TEST_F(ListenerTest, AnUnusablePathIsAUsersMistake) {
  EXPECT_THROW(unix_listener((folder_ / "absent" / "keys").string(), geteuid()), UserError);
  EXPECT_THROW(unix_listener(folder_ / std::string(100, 'x'), geteuid()), UserError);
  EXPECT_FALSE(come_in());
  EXPECT_THROW(connect_to(std::string(200, 'x')), UserError);
}

TEST(Rendezvous, AnInheritedDescriptorMustBeOpen) {
  for (const char* text : {"", "x", "-1", "3x", "987654"})
    EXPECT_THROW(inherited_descriptor(text, "TESSERA_STORE"), UserError) << text;
}

TEST(Rendezvous, AnOversizedMessageIsRefusedWithAWord) {
  KeyServer server;
  const Descriptor stranger = server.connect();
  send_bytes(stranger, hello(0) + std::string(8, '\xff'));
  EXPECT_EQ(last_words(stranger),
            (Reply{Reply::Kind::refused, {"a message of 4294967295 bytes; at most 67108864 are allowed"}}));
}

TEST(Rendezvous, GarbageEndsOneConnectionAndNothingElse) {
  KeyServer server;
  KeyClient member(server.connect(), 0);
  member.put_and_get({{"of a member", "1"}}, {}, 1s);
  const std::uint64_t seed = 20240601;
  for (std::uint64_t round = 0; round < 300; ++round) {
    auto random = [&, index = std::uint64_t{0}]() mutable { return random_bits(seed, round, index++); };
    // Half of the rounds damage a good message, so that deeper layers of the parser are reached.
    std::string bytes = encode(Request{Request::Kind::exchange, 1, "", 1, {{"k", "v"}, {"l", "w"}}, {"k"}});
    const bool is_introduced = round % 4 == 1;
    if (round % 2) {
      // A rank may not say less than it announces: that would be a loss.
      const std::size_t first = is_introduced ? kLengthBytes : 0;
      for (int i = 0; i < 3; ++i)
        bytes[first + random() % (bytes.size() - first)] = static_cast<char>(random());
    } else {
      bytes.resize(random() % 200);
      for (auto& byte : bytes) byte = static_cast<char>(random());
    }
    const Descriptor stranger = server.connect();
    send_bytes(stranger, is_introduced ? hello(1) + bytes : bytes);
    // A damaged message may still be a good one: then the stranger leaves as a rank would.
    send_bytes(stranger, encode(Request{.kind = Request::Kind::goodbye}));
    if (random() % 2) shutdown(stranger.number(), SHUT_WR);
  }
  const auto values = member.put_and_get({{"b", "2"}}, {"of a member", "b"}, 5s);
  EXPECT_EQ(values, (std::vector<std::string>{"1", "2"})) << "seed " << seed;
}

}  // namespace
}  // namespace tessera::launch
