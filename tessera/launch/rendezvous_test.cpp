#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <thread>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/launch/key_client.hpp"
#include "tessera/launch/key_server.hpp"

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
  const Request request{Request::Kind::goodbye, -7, {{"a", std::string("\0b", 2)}, {"", ""}}, {"k", "l"}};
  EXPECT_EQ(parse_request(encode(request).substr(kLengthBytes)), request);
  const Reply reply{Reply::Kind::missing, {"x", ""}};
  EXPECT_EQ(parse_reply(encode(reply).substr(kLengthBytes)), reply);
  EXPECT_EQ(body_bytes(encode(reply)), encode(reply).size() - kLengthBytes);
}

TEST(Wire, CutOrLengthenedBodiesAreMalformed) {
  const std::string body =
      encode(Request{Request::Kind::exchange, 5, {{"a", "b"}}, {"k"}}).substr(kLengthBytes);
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
      KeyClient client(server.path());
      std::vector<std::string> wanted, expected;
      for (int peer = 7; peer >= 0; --peer) {
        wanted.push_back(cat("key ", peer));
        expected.push_back(cat("value ", peer));
      }
      EXPECT_EQ(client.exchange({{cat("key ", rank), cat("value ", rank)}}, wanted, 10s), expected);
    });
  for (auto& rank : ranks) rank.join();
  KeyClient client(server.path());
  EXPECT_EQ(client.exchange({}, {"key 3", "key 3"}, 1s), (std::vector<std::string>{"value 3", "value 3"}));
  EXPECT_EQ(client.exchange({{"only put", ""}}, {}, 1s), std::vector<std::string>{});
}

TEST(Rendezvous, AnExchangeThatTimedOutDoesNotCountForTheNext) {
  KeyServer server;
  KeyClient waits(server.path()), writes(server.path());
  EXPECT_EQ(lost_words([&] {
              waits.exchange({}, {"a", "b", "b"}, 30ms);
            }),
            "no peer wrote a, b, b within 30 ms");
  std::thread peer([&] {
    std::this_thread::sleep_for(20ms);
    for (const char* key : {"a", "b", "c"}) writes.exchange({{key, key}}, {}, 1s);
  });
  EXPECT_EQ(waits.exchange({}, {"b", "c", "c"}, 10s), (std::vector<std::string>{"b", "c", "c"}));
  peer.join();
}

TEST(Rendezvous, WaitersCostNothingWhileOthersTalk) {
  KeyServer server;
  std::vector<std::string> wanted;
  for (int i = 0; i < 100'000; ++i) wanted.push_back(cat("job/0/group/", i));
  std::thread waiting([&] {
    KeyClient client(server.path());
    EXPECT_EQ(client.exchange({}, wanted, 60s).size(), wanted.size());
  });
  KeyClient talks(server.path());
  KeyValues all;
  for (const auto& key : wanted) all.emplace_back(key, "");
  all.pop_back();
  talks.exchange(all, {}, 10s);
  const double start_seconds = now_seconds();
  for (int i = 0; i < 1000; ++i) talks.exchange({{"other", ""}}, {"other"}, 10s);
  // A look through all that is waited for, at each message, would take half a minute.
  EXPECT_LT(now_seconds() - start_seconds, 5);
  talks.exchange({{wanted.back(), ""}}, {}, 10s);
  waiting.join();
}

TEST(Rendezvous, LargeValuesPassInPieces) {
  KeyServer server;
  KeyClient writer(server.path()), reader(server.path());
  const std::string large(20 << 20, 'x');
  writer.exchange({{"large", large}}, {}, 1s);
  EXPECT_EQ(reader.exchange({}, {"large", "large"}, 10s), (std::vector<std::string>{large, large}));
}

TEST(Rendezvous, KeysThatDontComeInTimeAreNamed) {
  KeyServer server;
  KeyClient client(server.path());
  const auto words = lost_words([&] { client.exchange({{"a", "1"}}, {"a", "b", "c"}, 30ms); });
  EXPECT_EQ(words, "no peer wrote b, c within 30 ms");
  EXPECT_EQ(client.exchange({}, {"a"}, 1s)[0], "1");
}

TEST(Rendezvous, ARankThatBreaksOffEndsItsPeersWaits) {
  KeyServer server;
  std::thread waiting([&] {
    KeyClient client(server.path());
    EXPECT_EQ(lost_words([&] { client.exchange({}, {"never"}, 60s); }),
              "a rank's connection to the key server broke off");
    EXPECT_NE(lost_words([&] { client.exchange({}, {}, 1s); }), "(nothing was lost)");
  });
  {
    const Descriptor rank = connect_to(server.path());
    send_bytes(rank, encode(Request{Request::Kind::exchange, 1000, {{"a", "1"}}, {}}));
    char reply[kLengthBytes];
    ASSERT_EQ(recv(rank.number(), reply, sizeof(reply), MSG_WAITALL), static_cast<ssize_t>(sizeof(reply)));
  }
  waiting.join();
}

TEST(Rendezvous, ARankThatSaysGoodbyeIsNotLost) {
  KeyServer server;
  KeyClient stays(server.path());
  { KeyClient(server.path()).exchange({{"a", "1"}}, {}, 1s); }
  EXPECT_EQ(lost_words([&] { stays.exchange({}, {"never"}, 50ms); }), "no peer wrote never within 50 ms");
}

TEST(Rendezvous, AnAbortedJobTellsThoseWhoWaitAndThoseWhoComeLater) {
  KeyServer server;
  std::thread waiting([&] {
    KeyClient client(server.path());
    EXPECT_EQ(lost_words([&] { client.exchange({}, {"never"}, 60s); }), "rank 3 failed");
  });
  std::this_thread::sleep_for(20ms);
  server.abort("rank 3 failed");
  waiting.join();
  KeyClient late(server.path());
  EXPECT_EQ(lost_words([&] { late.exchange({}, {}, 1s); }), "rank 3 failed");
}

TEST(Rendezvous, AServerThatEndsIsTold) {
  auto server = std::make_unique<KeyServer>();
  KeyClient client(server->path());
  server.reset();
  EXPECT_NE(lost_words([&] { client.exchange({}, {"a"}, 1s); }).find("launcher is gone"), std::string::npos);
}

TEST(Rendezvous, LivesInAPrivateFolderThatGoesWithIt) {
  std::filesystem::path folder;
  {
    const KeyServer server;
    folder = std::filesystem::path(server.path()).parent_path();
    struct stat status;
    ASSERT_EQ(stat(folder.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u);
    EXPECT_EQ(status.st_uid, geteuid());
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_THROW(KeyClient((folder / "keys").string()), UserError);
  EXPECT_THROW(KeyClient(std::string(200, 'x')), UserError);
}

// Sets TMPDIR while it lives.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& path) : before_(std::filesystem::temp_directory_path()) {
    setenv("TMPDIR", path.c_str(), 1);
  }
  ~TemporaryFolder() { setenv("TMPDIR", before_.c_str(), 1); }

 private:
  std::string before_;
};

TEST(Rendezvous, AnUnusableTemporaryFolderIsAUsersMistakeAndLeavesNothing) {
  {
    const TemporaryFolder absent("/no/such/folder");
    EXPECT_THROW(KeyServer(), UserError);
  }
  std::string own = (std::filesystem::temp_directory_path() / "rendezvous_XXXXXX").string();
  ASSERT_NE(mkdtemp(own.data()), nullptr);
  const std::filesystem::path long_path = std::filesystem::path(own) / std::string(100, 'x');
  std::filesystem::create_directory(long_path);
  {
    const TemporaryFolder too_long(long_path);
    EXPECT_THROW(KeyServer(), UserError);
  }
  EXPECT_TRUE(std::filesystem::is_empty(long_path));
  std::filesystem::remove_all(own);
}

TEST(Rendezvous, AServerWithoutDescriptorsTellsInsteadOfSpinning) {
  KeyServer server;
  KeyClient member(server.path());
  member.exchange({}, {}, 1s);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(0);
  close(next);
  // One more, which the client takes before the server can.
  const rlimit scarce{static_cast<rlim_t>(next) + 1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &scarce), 0);
  {
    KeyClient late(server.path());
    EXPECT_EQ(lost_words([&] { member.exchange({}, {"never"}, 5s); }),
              "the key server cannot admit another rank: Too many open files");
    EXPECT_NE(lost_words([&] { late.exchange({}, {}, 5s); }), "(nothing was lost)");
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(Rendezvous, ClientsOfAnotherUserAreRefused) {
  KeyServer server(geteuid() + 1);
  KeyClient client(server.path());
  EXPECT_NE(lost_words([&] { client.exchange({}, {"a"}, 1s); }).find("refused: the key server serves user"),
            std::string::npos);
}

TEST(Rendezvous, AnOversizedMessageIsRefusedWithAWord) {
  KeyServer server;
  const Descriptor stranger = connect_to(server.path());
  send_bytes(stranger, std::string(8, '\xff'));
  EXPECT_EQ(last_words(stranger),
            (Reply{Reply::Kind::refused, {"a message of 4294967295 bytes; at most 67108864 are allowed"}}));
}

TEST(Rendezvous, GarbageEndsOneConnectionAndNothingElse) {
  KeyServer server;
  KeyClient member(server.path());
  member.exchange({{"of a member", "1"}}, {}, 1s);
  const std::uint64_t seed = 20240601;
  for (std::uint64_t round = 0; round < 300; ++round) {
    auto random = [&, index = std::uint64_t{0}]() mutable { return random_bits(seed, round, index++); };
    // Half of the rounds damage a good message, so that deeper layers of the parser are reached.
    std::string bytes = encode(Request{Request::Kind::exchange, 1, {{"k", "v"}, {"l", "w"}}, {"k"}});
    if (round % 2) {
      for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    } else {
      bytes.resize(random() % 200);
      for (auto& byte : bytes) byte = static_cast<char>(random());
    }
    const Descriptor stranger = connect_to(server.path());
    send_bytes(stranger, bytes);
    // A damaged message may still be a good one: then the stranger leaves as a rank would.
    send_bytes(stranger, encode(Request{Request::Kind::goodbye, 0, {}, {}}));
    if (random() % 2) shutdown(stranger.number(), SHUT_WR);
  }
  const auto values = member.exchange({{"b", "2"}}, {"of a member", "b"}, 5s);
  EXPECT_EQ(values, (std::vector<std::string>{"1", "2"})) << "seed " << seed;
}

}  // namespace
}  // namespace tessera::launch
