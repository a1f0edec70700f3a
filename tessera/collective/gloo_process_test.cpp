#include "tessera/collective/gloo.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <numeric>
#include <set>
#include <sstream>
#include <thread>

#include "tessera/base/error.hpp"
#include "tessera/collective/closed_door.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::collective {
namespace {

using at::Tensor;
using namespace std::chrono_literals;

// A store shared by processes: one locked file of lengths, keys and values.
class FileKeyStore final : public KeyStore {
 public:
  explicit FileKeyStore(std::string path) : path_(std::move(path)) {}

  std::vector<std::string> exchange(const KeyValues& puts, const std::vector<std::string>& wanted,
                                    std::chrono::milliseconds timeout) override {
    const auto end = std::chrono::steady_clock::now() + timeout;
    locked([&](auto& values) {
      for (const auto& [key, value] : puts) values[key] = value;
    });
    while (true) {
      std::vector<std::string> found;
      locked([&](auto& values) {
        for (const auto& key : wanted)
          if (values.contains(key)) found.push_back(values[key]);
      });
      if (found.size() == wanted.size()) return found;
      if (std::chrono::steady_clock::now() > end) throw PeerLost("keys are missing in the file");
      std::this_thread::sleep_for(2ms);
    }
  }

 private:
  void locked(const std::function<void(std::map<std::string, std::string>&)>& use) {
    const int lock = open((path_ + ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    CHECK(lock >= 0 && flock(lock, LOCK_EX) == 0, "cannot lock ", path_);
    std::map<std::string, std::string> values;
    std::ifstream in(path_, std::ios::binary);
    std::size_t key_size, value_size;
    while (in >> key_size >> value_size) {
      std::string key(key_size, 0), value(value_size, 0);
      in.get();
      in.read(key.data(), static_cast<std::streamsize>(key_size));
      in.read(value.data(), static_cast<std::streamsize>(value_size));
      values[key] = value;
    }
    in.close();
    const auto before = values;
    use(values);
    if (values != before) {
      std::ofstream out(path_, std::ios::binary | std::ios::trunc);
      for (const auto& [key, value] : values)
        out << key.size() << ' ' << value.size() << '\n' << key << value;
    }
    close(lock);
  }

  std::string path_;
};

// Forks `size` ranks (this process never starts a thread of LibTorch) and expects exit code `expected[rank]`,
// or 0.
void in_processes(int size, const std::function<void(KeyStore&, int)>& body, std::vector<int> expected = {}) {
  std::string folder = (std::filesystem::temp_directory_path() / "tessera_gloo_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  expected.resize(static_cast<std::size_t>(size));
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      int code = 0;
      try {
        FileKeyStore store(folder + "/keys");
        tensor::set_threads(1);
        body(store, rank);
        if (testing::Test::HasFailure()) code = 1;
      } catch (const std::exception& error) {
        std::cerr << "rank " << rank << ": " << error.what() << std::endl;
        code = exit_code(error);
      }
      std::cout.flush();
      _exit(code);
    }
    children.push_back(child);
  }
  for (std::size_t rank = 0; rank < children.size(); ++rank) {
    int status = 0;
    waitpid(children[rank], &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << "rank " << rank << " ended by signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), expected[rank]) << "rank " << rank;
  }
  std::filesystem::remove_all(folder);
}

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

Tensor filled(double value, at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) {
  return tensor::zeros(shape, dtype).add(value);
}

double element(const Tensor& t, std::int64_t i) {
  return t.to(at::kDouble).contiguous().view({-1}).data_ptr<double>()[i];
}

class Gloo : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Processes, Gloo, testing::Values(2, 3));

TEST_P(Gloo, MovesAndSumsEveryTypeBetweenProcesses) {
  const int size = GetParam();
  in_processes(size, [size](KeyStore& store, int rank) {
    const GlooCommunicator me(store, rank, size);
    const Group group = make_groups(me, {all_ranks(size)})[0];
    for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong}) {
      Tensor sum = filled(rank + 1, {5}, dtype), largest = sum.clone(), copy = sum.clone(),
             none = sum.narrow(0, 0, 0);
      group.all_reduce_sum(sum);
      group.all_reduce_max(largest);
      group.broadcast(copy, 1);
      group.all_reduce_sum(none);
      EXPECT_EQ(element(sum, 4), size * (size + 1) / 2);
      EXPECT_EQ(element(largest, 4), size);
      EXPECT_EQ(element(copy, 4), 2);

      Tensor all = sum.new_empty({2 * size, 3}), share = sum.new_empty({2, 3});
      group.all_gather(all, filled(rank, {2, 3}, dtype));
      group.reduce_scatter_sum(share, all);
      for (int member = 0; member < size; ++member) EXPECT_EQ(element(all, 6 * member + 5), member);
      EXPECT_EQ(element(share, 0), size * rank);
    }
    group.barrier();
  });
}

// Several slices long, with shares of unequal length: bit by bit what adding in the order of ranks gives.
TEST_P(Gloo, SumsLargeTensorsInTheOrderOfRanks) {
  const int size = GetParam();
  in_processes(size, [size](KeyStore& store, int rank) {
    const GlooCommunicator me(store, rank, size);
    const Group group = make_groups(me, {all_ranks(size)})[0];
    constexpr std::int64_t kElements = 1'000'003;
    const auto values = [](int member, std::int64_t elements) {
      Tensor t = tensor::empty({elements}, at::kFloat);
      for (std::int64_t i = 0; i < elements; ++i)
        t.data_ptr<float>()[i] = static_cast<float>((i * 7919 + member * 104729) % 1000003) * 1e-3f;
      return t;
    };
    const auto sum_of = [&](std::int64_t elements) {
      Tensor total = values(0, elements);
      for (int member = 1; member < size; ++member) total = total.add(values(member, elements));
      return total;
    };
    Tensor all = values(rank, kElements);
    group.all_reduce_sum(all);
    EXPECT_TRUE(tensor::bit_equal(all, sum_of(kElements)));
    const std::int64_t part = kElements / size;
    Tensor share = tensor::empty({part}, at::kFloat);
    group.reduce_scatter_sum(share, values(rank, size * part));
    EXPECT_TRUE(tensor::bit_equal(share, sum_of(size * part).narrow(0, rank * part, part)));
  });
}

TEST_P(Gloo, AllToAllTakesUnevenAndEmptyRows) {
  const int size = GetParam();
  in_processes(size, [size](KeyStore& store, int rank) {
    const GlooCommunicator me(store, rank, size);
    const Group group = make_groups(me, {all_ranks(size)})[0];
    // Rank r gets r rows from everyone.
    std::vector<std::int64_t> in_rows, out_rows(static_cast<std::size_t>(size), rank);
    for (int peer = 0; peer < size; ++peer) in_rows.push_back(peer);
    Tensor out = filled(-1, {size * rank, 2});
    group.all_to_all(out, filled(rank, {size * (size - 1) / 2, 2}), out_rows, in_rows);
    for (std::int64_t row = 0; row < size * rank; ++row)
      EXPECT_EQ(element(out, 2 * row + 1), static_cast<double>(row / rank));
  });
}

TEST_P(Gloo, ASendNeverWaitsForItsReceiver) {
  const int size = GetParam();
  in_processes(size, [size](KeyStore& store, int rank) {
    const GlooCommunicator me(store, rank, size);
    const Group group = make_groups(me, {all_ranks(size)})[0];
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    // Larger than a socket's buffers, and everyone sends first.
    const std::int64_t num_elements = 1 << 20;
    for (int tag = 0; tag < 3; ++tag) group.send(filled(10 * tag + rank, {num_elements}), next, tag);
    Tensor t = filled(0, {num_elements});
    for (const int tag : {2, 0, 1}) {
      group.receive(t, before, tag);
      EXPECT_EQ(element(t, num_elements - 1), 10 * tag + before);
    }
  });
}

TEST_P(Gloo, ReceivesThatWereBegunEarlyArriveInTheirOrder) {
  const int size = GetParam();
  in_processes(size, [size](KeyStore& store, int rank) {
    const GlooCommunicator me(store, rank, size);
    const Group group = make_groups(me, {all_ranks(size)})[0];
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    const std::int64_t num_elements = 1 << 20;
    const Tensor first = filled(-1, {num_elements}), second = filled(-1, {num_elements});
    const auto wait_first = group.expect(first, before, 0), wait_second = group.expect(second, before, 0);
    group.hand_over(filled(rank, {num_elements}), next, 0);
    group.hand_over(filled(rank + 10, {num_elements}), next, 0);
    wait_first();
    wait_second();
    EXPECT_EQ(element(first, num_elements - 1), before);
    EXPECT_EQ(element(second, num_elements - 1), before + 10);
  });
}

TEST_P(Gloo, TheNumberOfExchangesDoesNotGrowWithTheNumberOfGroups) {
  const int size = GetParam();
  in_processes(size, [size](KeyStore& store, int rank) {
    const GlooCommunicator me(store, rank, size);
    std::vector<std::vector<int>> lists{all_ranks(size), all_ranks(size), {rank}};
    for (int a = 0; a < size; ++a)
      for (int b = 0; b < size; ++b)
        if (a != b) lists.push_back({a, b});
    const auto many = make_groups(me, lists);
    EXPECT_EQ(me.num_exchanges(), 1);
    for (const auto& group : many) {
      Tensor t = filled(rank, {1});
      group.all_reduce_sum(t);
      EXPECT_EQ(element(t, 0), std::accumulate(group.ranks().begin(), group.ranks().end(), 0));
    }
    make_groups(me, {all_ranks(size)});
    EXPECT_EQ(me.num_exchanges(), 2);
    make_groups(me, {{rank}});
    EXPECT_EQ(me.num_exchanges(), 2);
  });
}

TEST(Gloo, ABrokenPipeDoesNotKillTheRank) {
  in_processes(1, [](KeyStore& store, int rank) {
    const GlooCommunicator me(store, rank, 1);
    raise(SIGPIPE);
  });
}

TEST(Gloo, APeerThatDiesOrStaysAwayIsLostNotWaitedFor) {
  in_processes(3,
               [](KeyStore& store, int rank) {
                 GlooOptions options;
                 options.timeout = 5s;
                 const GlooCommunicator me(store, rank, 3, options);
                 const Group group = make_groups(me, {all_ranks(3)})[0];
                 if (rank == 1) _exit(7);
                 Tensor t = filled(1, {4});
                 group.all_reduce_sum(t);
                 group.barrier();
               },
               {kExitPeerLost, 7, kExitPeerLost});
  in_processes(2,
               [](KeyStore& store, int rank) {
                 GlooOptions options;
                 options.timeout = 300ms;
                 if (rank == 0) make_groups(GlooCommunicator(store, 0, 2, options), {{0, 1}});
               },
               {kExitPeerLost, 0});
}

TEST(Gloo, AnAddressOfAnotherMachineIsAUsersMistake) {
  in_processes(2,
               [](KeyStore& store, int rank) {
                 GlooOptions options;
                 options.address = "no.such.host.invalid";
                 make_groups(GlooCommunicator(store, rank, 2, options), {{0, 1}});
               },
               {kExitUserError, kExitUserError});
}

// Local addresses, as /proc/net/tcp writes them, of this process's listening sockets.
std::vector<std::string> listening_addresses() {
  std::set<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  std::vector<std::string> addresses;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(table);
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
      std::istringstream fields(line);
      std::string slot, local, remote, state, skipped, inode;
      fields >> slot >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) fields >> skipped;
      fields >> inode;
      const std::string kListen = "0A";
      if (state == kListen && inodes.contains(inode)) addresses.push_back(local.substr(0, local.find(':')));
    }
  }
  return addresses;
}

TEST(Gloo, NothingListensOutsideLoopbackWhileGroupsExist) {
  in_processes(2, [](KeyStore& store, int rank) {
    const GlooCommunicator me(store, rank, 2);
    const auto groups = make_groups(me, {{0, 1}, {1, 0}});
    groups[0].barrier();
    const auto addresses = listening_addresses();
    EXPECT_FALSE(addresses.empty());  // Gloo does listen: the search must see it
    for (const auto& address : addresses)
      EXPECT_TRUE(address == "0100007F" || address == "00000000000000000000000001000000") << address;
    groups[0].barrier();
  });
}

TEST(Gloo, NobodyElseCanConnectOnceGroupsExist) {
  in_processes(2, [](KeyStore& store, int rank) {
    const GlooCommunicator me(store, rank, 2);
    const auto groups = make_groups(me, {{0, 1}, {1, 0}});
    const auto listening = listening_sockets();
    ASSERT_FALSE(listening.empty());
    for (const int socket : listening) {
      sockaddr_storage address;
      socklen_t size = sizeof(address);
      ASSERT_EQ(getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size), 0);
      const int stranger = ::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      connect(stranger, reinterpret_cast<const sockaddr*>(&address), size);
      pollfd polled{stranger, POLLOUT, 0};
      EXPECT_EQ(poll(&polled, 1, 300), 0) << "a stranger was let in, or told something";
      close(stranger);
    }
    Tensor t = filled(rank, {1 << 16});
    for (const auto& group : groups) group.all_reduce_sum(t);
    EXPECT_EQ(element(t, 0), 2);
    // Groups that are made later have a socket of their own.
    make_groups(me, {{0, 1}})[0].barrier();
  });
}

}  // namespace
}  // namespace tessera::collective
