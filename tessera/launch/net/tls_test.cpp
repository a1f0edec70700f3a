#include "tessera/launch/net/tls.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/launch/net/tcp_socket.hpp"
#include "tessera/launch/store/join_store.hpp"

namespace tessera::launch {
namespace {

using namespace std::chrono_literals;

const std::string kSecret(32, 's');

std::shared_ptr<const JobKey> key(const std::string& secret = kSecret, const std::string& job = "night/0") {
  return std::make_shared<JobKey>(secret, job);
}

// A server on loopback behind TLS.
class Tls : public testing::Test {
 protected:
  void SetUp() override {
    for (int port = 29400 + getpid() % 10000;; ++port) {
      address_ = {"127.0.0.1", std::to_string(port)};
      try {
        Descriptor listening = listen_on(address_);
        server_.open(tls_listener(std::move(listening), key()), {0, 1});
        return;
      } catch (const UserError&) {
        ASSERT_LT(port, 60000);
      }
    }
  }

  Descriptor come() const { return connect_by(address_, now_seconds() + 5); }
  std::unique_ptr<KeyClient> member(int rank, std::shared_ptr<const JobKey> with = key()) const {
    auto channel = tls_channel(come(), std::move(with), now_seconds() + 5);
    return channel ? std::make_unique<KeyClient>(std::move(channel), rank) : nullptr;
  }
  // All that the server sends until it ends the connection; it must do so within the time.
  static std::string answer(const Descriptor& socket, std::chrono::milliseconds timeout,
                            bool* ended = nullptr) {
    std::string in;
    char buffer[4096];
    pollfd polled{socket.number(), POLLIN, 0};
    while (poll(&polled, 1, static_cast<int>(timeout.count())) == 1) {
      const ssize_t count = recv(socket.number(), buffer, sizeof(buffer), 0);
      if (count <= 0) {
        if (ended) *ended = true;
        break;
      }
      in.append(buffer, static_cast<std::size_t>(count));
    }
    return in;
  }
  static void say(const Descriptor& socket, std::string_view bytes) {
    EXPECT_EQ(send(socket.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  TcpAddress address_;
  KeyServer server_;
};

TEST_F(Tls, MembersExchangeKeysOfAnySize) {
  const auto first = member(0), second = member(1);
  ASSERT_TRUE(first && second);
  const std::string large(3 << 20, 'x');
  first->put_and_get({{"large", large}}, {}, 5s);
  EXPECT_EQ(second->put_and_get({}, {"large"}, 10s)[0], large);
  EXPECT_EQ(second->report("well", 10s), std::nullopt);
  // All have come: the door is closed.
  EXPECT_FALSE(come());
}

TEST_F(Tls, AnotherKeyOrAnotherJobDoesNotComeIn) {
  EXPECT_THROW(member(0, key(std::string(32, 't'))), UserError);
  EXPECT_THROW(member(0, key(kSecret, "night/1")), UserError);
  EXPECT_TRUE(member(0));
}

TEST_F(Tls, StrangersGetNothingButAnEnd) {
  const std::uint64_t seed = 7;
  for (std::uint64_t round = 0; round < 50; ++round) {
    std::string garbage;
    for (std::uint64_t i = 0; i < 300; ++i) garbage.push_back(static_cast<char>(random_bits(seed, round, i)));
    // Half of them look like the beginning of a TLS record.
    if (round % 2) garbage.replace(0, 5, std::string("\x16\x03\x01\x01\x27", 5));
    const Descriptor stranger = come();
    say(stranger, garbage);
    bool ended = false;
    EXPECT_LT(answer(stranger, 5000ms, &ended).size(), 16u);  // at most an alert
    EXPECT_TRUE(ended);
  }
  const Descriptor plain = come();
  say(plain, encode(Request{.kind = Request::Kind::hello}) + encode(Request{.puts = {{"a", "stranger"}}}));
  bool ended = false;
  EXPECT_LT(answer(plain, 5000ms, &ended).size(), 16u);
  EXPECT_TRUE(ended);
  const auto first = member(0);
  EXPECT_THROW(first->put_and_get({}, {"a"}, 20ms), PeerLost);
}

// Passes bytes between a client and the server, and keeps what the client said.
std::string recorded(const Descriptor& client, const Descriptor& server, const std::atomic<bool>& done) {
  std::string said;
  char buffer[65536];
  while (!done) {
    pollfd polled[] = {{client.number(), POLLIN, 0}, {server.number(), POLLIN, 0}};
    poll(polled, 2, 10);
    for (const bool from_client : {true, false}) {
      const Descriptor &from = from_client ? client : server, &to = from_client ? server : client;
      const ssize_t count = recv(from.number(), buffer, sizeof(buffer), MSG_DONTWAIT);
      if (count <= 0) continue;
      if (from_client) said.append(buffer, static_cast<std::size_t>(count));
      send(to.number(), buffer, static_cast<std::size_t>(count), MSG_NOSIGNAL);
    }
  }
  return said;
}

TEST_F(Tls, AReplayOfAGenuineConnectionChangesNothing) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const Descriptor middle(ends[1]), server_side = come();
  std::atomic<bool> done = false;
  std::string said;
  std::thread proxy([&] { said = recorded(middle, server_side, done); });
  {
    KeyClient genuine(tls_channel(Descriptor(ends[0]), key(), now_seconds() + 5), 0);
    genuine.put_and_get({{"a", "genuine"}}, {}, 5s);
    genuine.put_and_get({{"a", "changed later"}}, {}, 5s);
    done = true;
    proxy.join();
    EXPECT_GT(said.size(), 300u);
    for (int i = 0; i < 10; ++i) {
      const Descriptor replay = come();
      say(replay, said);
      bool ended = false;
      const std::string got = answer(replay, 5000ms, &ended);
      EXPECT_TRUE(ended);
      EXPECT_EQ(got.find("genuine"), std::string::npos);
    }
    KeyClient reader(server_.connect(), 1);
    EXPECT_EQ(reader.put_and_get({}, {"a"}, 1s)[0], "changed later");
  }
}

TEST_F(Tls, AThousandConnectionsDoNotKeepARankOut) {
  rlimit limit;  // both ends of a connection are here
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 1000; ++i)
    if (auto stranger = come()) strangers.push_back(std::move(stranger));
  const auto first = member(0);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->put_and_get({{"a", "1"}}, {"a"}, 5s)[0], "1");
}

TEST(JobKey, AKeyIsForItsJobAndLongEnough) {
  const auto bytes = [](const JobKey& key) { return std::string(key.bytes().begin(), key.bytes().end()); };
  EXPECT_EQ(bytes(JobKey(kSecret, "a")), bytes(JobKey(kSecret, "a")));
  EXPECT_NE(bytes(JobKey(kSecret, "a")), bytes(JobKey(kSecret, "b")));
  EXPECT_NE(bytes(JobKey(kSecret, "a")), bytes(JobKey(kSecret + "s", "a")));
  EXPECT_THROW(JobKey(std::string(15, 's'), "a"), UserError);
}

TEST(JobKey, AFileThatOthersMayTouchIsRefused) {
  std::string folder = (std::filesystem::temp_directory_path() / "tls_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/job.key";
  EXPECT_THROW(Secret::from_file(path), UserError);
  std::ofstream(path) << kSecret;
  for (const mode_t mode : {0640, 0604, 0620, 0601}) {
    chmod(path.c_str(), mode);
    EXPECT_THROW(Secret::from_file(path), UserError) << mode;
  }
  chmod(path.c_str(), 0600);
  EXPECT_EQ(Secret::from_file(path).bytes(), kSecret);
  EXPECT_THROW(Secret::from_file(folder), UserError);
  std::ofstream(path) << std::string(5000, 'x');
  EXPECT_THROW(Secret::from_file(path), UserError);
  std::filesystem::remove_all(folder);
}

TEST(TcpAddress, HostAndPortAreTakenApart) {
  EXPECT_EQ(parse_address("node1:29400", "x"), (TcpAddress{"node1", "29400"}));
  EXPECT_EQ(parse_address("[fd00::1]:1", "x"), (TcpAddress{"fd00::1", "1"}));
  for (const char* text :
       {"", "node1", ":1", "node1:", "node1:0", "node1:65536", "node1:1x", "fd00::1:5", "[]:1"})
    EXPECT_THROW(parse_address(text, "cluster.store"), UserError) << text;
  for (const char* host : {"0.0.0.0", "::", "192.0.2.77", "no.such.host.invalid"})
    EXPECT_THROW(listen_on({host, "29399"}), UserError) << host;
}

}  // namespace
}  // namespace tessera::launch
