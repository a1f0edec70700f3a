#include "tessera/launch/store/peers.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <thread>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/launch/net/handshake.hpp"
#include "tessera/launch/net/tcp_socket.hpp"
#include "tessera/launch/store/key_server.hpp"

namespace tessera::launch {
namespace {

using namespace std::chrono_literals;

std::vector<PeerRequest> requests_of(int rank, int size, const std::string& prefix = "") {
  std::vector<PeerRequest> out;
  for (int peer = 0; peer < size; ++peer)
    if (peer != rank) out.push_back({peer, cat(prefix, std::min(rank, peer), "-", std::max(rank, peer))});
  return out;
}

// Each says its rank and hears the other's.
void greet(const std::vector<PeerRequest>& requests, const std::vector<Descriptor>& sockets, int rank) {
  ASSERT_EQ(sockets.size(), requests.size());
  const auto own = static_cast<char>(rank);
  for (const auto& socket : sockets) ASSERT_EQ(send(socket.number(), &own, 1, MSG_NOSIGNAL), 1);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    char theirs = -1;
    pollfd polled{sockets[i].number(), POLLIN, 0};
    ASSERT_EQ(poll(&polled, 1, 10000), 1);
    ASSERT_EQ(recv(sockets[i].number(), &theirs, 1, 0), 1);
    EXPECT_EQ(theirs, requests[i].peer);
  }
}

void on_ranks(int size, const std::function<void(int)>& body) {
  std::vector<std::future<void>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::async(std::launch::async, body, rank));
  for (auto& rank : ranks) rank.get();
}

std::size_t num_open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(LocalPeers, EveryTwoRanksShareAConnectionOfTheirOwn) {
  const std::size_t before = num_open_descriptors();
  {
    KeyServer server;
    constexpr int kRanks = 12;
    on_ranks(kRanks, [&](int rank) {
      KeyClient keys(server.connect(), rank);
      const auto peers = local_peers(keys);
      for (const char* prefix : {"first/", "second/"}) {
        const auto requests = requests_of(rank, kRanks, prefix);
        greet(requests, peers->connect(requests, 10s), rank);
      }
      EXPECT_TRUE(peers->connect({}, 1ms).empty());
      keys.put_and_get({{cat(rank), ""}}, {"0"}, 10s);  // the connection still serves as before
    });
  }
  EXPECT_EQ(num_open_descriptors(), before);
}

TEST(LocalPeers, ARankThatStaysAwayIsNamedByItsConnection) {
  KeyServer server;
  KeyClient keys(server.connect(), 0);
  try {
    local_peers(keys)->connect({{1, "a/0-1"}, {2, "a/0-2"}}, 50ms);
    FAIL();
  } catch (const PeerLost& error) {
    EXPECT_STREQ(error.what(), "no peer asked for a/0-1, a/0-2 within 50 ms");
  }
  // Nobody is connected with one who has given up.
  KeyClient late(server.connect(), 1);
  EXPECT_THROW(local_peers(late)->connect({{0, "a/0-1"}}, 50ms), PeerLost);
}

TEST(LocalPeers, TheLossOfARankEndsTheWait) {
  KeyServer server;
  KeyClient keys(server.connect(), 0);
  auto waiting = std::async(std::launch::async, [&] { local_peers(keys)->connect({{1, "0-1"}}, 60s); });
  std::this_thread::sleep_for(30ms);
  server.abort("rank 1 is gone");
  EXPECT_THROW(waiting.get(), PeerLost);
}

TEST(LocalPeers, WithoutDescriptorsTheJobIsLostInWords) {
  KeyServer server;
  KeyClient one(server.connect(), 0), two(server.connect(), 1);
  rlimit before;
  getrlimit(RLIMIT_NOFILE, &before);
  auto waiting = std::async(std::launch::async, [&] { one.connect({{1, "0-1"}}, 10s); });
  std::this_thread::sleep_for(30ms);
  const rlimit none{3, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  EXPECT_THROW(two.connect({{0, "0-1"}}, 10s), PeerLost);
  setrlimit(RLIMIT_NOFILE, &before);
  try {
    waiting.get();
    FAIL();
  } catch (const PeerLost& error) {
    EXPECT_NE(std::string(error.what()).find("ulimit -n"), std::string::npos) << error.what();
  }
}

TEST(TcpPeers, EveryTwoRanksShareAConnectionOfTheirOwn) {
  MemoryKeyStore store;
  const std::size_t before = num_open_descriptors();
  on_ranks(5, [&](int rank) {
    const auto peers = tcp_peers(store, rank, "127.0.0.1");
    for (const char* prefix : {"first/", "second/"}) {
      const auto requests = requests_of(rank, 5, prefix);
      greet(requests, peers->connect(requests, 10s), rank);
    }
  });
  EXPECT_EQ(num_open_descriptors(), before);  // nothing listens any more
}

TEST(TcpPeers, ARankThatStaysAwayIsNamed) {
  MemoryKeyStore store;
  try {
    tcp_peers(store, 0, "127.0.0.1")->connect({{1, "0-1"}, {3, "0-3"}}, 50ms);
    FAIL();
  } catch (const PeerLost& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1, 3 did not connect"), std::string::npos) << error.what();
  }
}

// Comes first with all that can be known without the secret: silence, garbage, what it is sent, a recorded
// claim, and a flood.
TEST(TcpPeers, StrangersGetNoPlaceAndOnlyARandomNumber) {
  MemoryKeyStore store;
  auto listening = std::async(std::launch::async, [&] {
    auto sockets = tcp_peers(store, 0, "127.0.0.1")->connect({{1, "0-1"}}, 20s);
    greet({{1, "0-1"}}, sockets, 0);
  });
  const std::string endpoint = store.put_and_get({}, {"0-1"}, 10s)[0];
  const auto space = endpoint.find(' ');
  const TcpAddress address{endpoint.substr(0, space),
                           endpoint.substr(space + 1, endpoint.find(' ', space + 1) - space - 1)};
  const Digest secret = digest_of_hex(endpoint.substr(endpoint.rfind(' ') + 1));

  std::vector<Descriptor> held;  // silent, and open until the end
  std::size_t num_received = 0;
  const auto hear = [&](const Descriptor& socket) {  // until it is closed
    char buffer[4096];
    pollfd polled{socket.number(), POLLIN, 0};
    while (poll(&polled, 1, 2000) == 1) {
      const ssize_t count = recv(socket.number(), buffer, sizeof(buffer), 0);
      if (count <= 0) return;
      num_received += static_cast<std::size_t>(count);
    }
    ADD_FAILURE() << "the listener keeps a stranger";
  };
  const auto say = [&](const void* bytes, std::size_t size) {
    const Descriptor socket = connect_by(address, now_seconds() + 5);
    ASSERT_TRUE(socket);
    ASSERT_EQ(send(socket.number(), bytes, size, MSG_NOSIGNAL), static_cast<ssize_t>(size));
    hear(socket);
  };
  const std::string garbage(sizeof(Claim), 'g');
  const Claim recorded =
      claim_of(secret, fresh_number(), "0-1");  // of another connection: the number is not this one's
  Claim wrong = recorded;
  wrong.name[0] ^= 1;
  int num_tried = 0;
  for (int i = 0; i < 20; ++i) {
    say(garbage.data(), garbage.size());
    say(&recorded, sizeof(recorded));
    say(&wrong, sizeof(wrong));
    num_tried += 3;
  }
  EXPECT_EQ(num_received, static_cast<std::size_t>(num_tried) * sizeof(Digest));
  for (int i = 0; i < 300; ++i) held.push_back(connect_by(address, now_seconds() + 5));

  auto sockets = tcp_peers(store, 1, "127.0.0.1")->connect({{0, "0-1"}}, 20s);
  greet({{0, "0-1"}}, sockets, 1);
  listening.get();
}

// Whoever listens in a rank's place can't answer a claim.
TEST(TcpPeers, AListenerThatDoesNotKnowTheSecretGetsNoData) {
  MemoryKeyStore store;
  const Descriptor impostor = listen_on({"127.0.0.1", "0"});
  sockaddr_in own{};
  socklen_t size = sizeof(own);
  ASSERT_EQ(getsockname(impostor.number(), reinterpret_cast<sockaddr*>(&own), &size), 0);
  store.put_and_get({{"0-1", cat("127.0.0.1 ", ntohs(own.sin_port), " ", to_hex(fresh_number()))}}, {}, 1s);
  std::atomic<bool> ended = false;
  std::thread accepting([&] {
    while (!ended) {
      pollfd polled{impostor.number(), POLLIN, 0};
      if (poll(&polled, 1, 10) != 1) continue;
      const Descriptor socket(accept4(impostor.number(), nullptr, nullptr, SOCK_CLOEXEC));
      const Digest number = fresh_number(), answer = fresh_number();
      Claim claim;
      send(socket.number(), number.data(), number.size(), MSG_NOSIGNAL);
      recv(socket.number(), &claim, sizeof(claim), MSG_WAITALL);
      send(socket.number(), answer.data(), answer.size(), MSG_NOSIGNAL);
      char payload;
      EXPECT_LE(recv(socket.number(), &payload, 1, 0), 0);
    }
  });
  EXPECT_THROW(tcp_peers(store, 1, "127.0.0.1")->connect({{0, "0-1"}}, 300ms), PeerLost);
  ended = true;
  accepting.join();
}

}  // namespace
}  // namespace tessera::launch
