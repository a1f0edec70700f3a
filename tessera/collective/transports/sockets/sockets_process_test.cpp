#include "tessera/collective/transports/sockets/sockets.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>
#include <thread>

#include "tessera/base/error.hpp"
#include "tessera/collective/testing/all_ranks.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::collective {
namespace {

using at::Tensor;
using namespace std::chrono_literals;

// Connections for ranks that are forked from one process. Every two ranks share a line, over which the lower
// hands the other one end of each new connection, by its name.
class ForkConnector final : public PeerConnector {
 public:
  using Lines = std::map<std::pair<int, int>, std::pair<Descriptor, Descriptor>>;  // by lower and higher rank

  ForkConnector(Lines& lines, int rank) : lines_(lines), rank_(rank) {}
  int num_calls() const { return num_calls_; }

  std::vector<Descriptor> connect(const std::vector<PeerRequest>& requests,
                                  std::chrono::milliseconds timeout) override {
    ++num_calls_;
    std::map<std::string, Descriptor> ends;
    for (const auto& [peer, name] : requests) {
      if (peer < rank_) continue;
      auto [ours, theirs] = connected_pair();
      hand_over(line_to(peer), name, theirs);
      ends.emplace(name, std::move(ours));
    }
    for (const auto& [peer, name] : requests) {
      if (peer > rank_) continue;
      await(peer, timeout);
      auto [arrived, end] = take_over(line_to(peer));
      ends.emplace(arrived, std::move(end));
      TESSERA_CHECK(send(line_to(peer), "!", 1, MSG_NOSIGNAL) == 1);
    }
    for (const auto& [peer, name] : requests) {
      if (peer < rank_) continue;
      await(peer, timeout);
      char taken;
      TESSERA_CHECK(recv(line_to(peer), &taken, 1, 0) == 1);
    }
    std::vector<Descriptor> out;
    for (const auto& [peer, name] : requests) out.push_back(std::move(ends.at(name)));
    return out;
  }

 private:
  static constexpr std::size_t kNameBytes = 128;

  int line_to(int peer) const {
    const auto& [lower, higher] = lines_.at(std::minmax(rank_, peer));
    return (rank_ < peer ? lower : higher).number();
  }
  void await(int peer, std::chrono::milliseconds timeout) const {
    pollfd polled{line_to(peer), POLLIN, 0};
    if (poll(&polled, 1, static_cast<int>(timeout.count())) != 1)
      throw PeerLost(cat("rank ", peer, " stays away"));
  }
  static void hand_over(int line, const std::string& name, const Descriptor& end) {
    char text[kNameBytes] = {}, control[CMSG_SPACE(sizeof(int))] = {};
    name.copy(text, kNameBytes - 1);
    iovec part{text, kNameBytes};
    msghdr message{
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    *CMSG_FIRSTHDR(&message) = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    *reinterpret_cast<int*>(CMSG_DATA(CMSG_FIRSTHDR(&message))) = end.number();
    TESSERA_CHECK(sendmsg(line, &message, MSG_NOSIGNAL) == kNameBytes);
  }
  static std::pair<std::string, Descriptor> take_over(int line) {
    char text[kNameBytes] = {}, control[CMSG_SPACE(sizeof(int))] = {};
    iovec part{text, kNameBytes};
    msghdr message{
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    TESSERA_CHECK(recvmsg(line, &message, MSG_WAITALL) == kNameBytes && CMSG_FIRSTHDR(&message));
    return {text, Descriptor(*reinterpret_cast<int*>(CMSG_DATA(CMSG_FIRSTHDR(&message))))};
  }

  Lines& lines_;
  const int rank_;
  int num_calls_ = 0;
};

// Forks `size` ranks (this process never starts a thread of LibTorch) and expects exit code `expected[rank]`,
// or 0.
void in_processes(int size, const std::function<void(ForkConnector&, int)>& body,
                  std::vector<int> expected = {}) {
  ForkConnector::Lines lines;
  for (int higher = 1; higher < size; ++higher)
    for (int lower = 0; lower < higher; ++lower) lines.emplace(std::pair(lower, higher), connected_pair());
  expected.resize(static_cast<std::size_t>(size));
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      int code = 0;
      try {
        ForkConnector connector(lines, rank);
        tensor::set_threads(1);
        body(connector, rank);
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
}

Tensor filled(double value, at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) {
  return tensor::zeros(shape, dtype).add(value);
}

double element(const Tensor& t, std::int64_t i) {
  return t.to(at::kDouble).contiguous().view({-1}).data_ptr<double>()[i];
}

Group group_of_all(PeerConnector& connector, int rank, int size) {
  const SocketCommunicator me(connector, {.rank = rank, .size = size});
  return make_groups(me, {all_ranks(size)})[0];
}

class Sockets : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Processes, Sockets, testing::Values(2, 3));

TEST_P(Sockets, MovesAndSumsEveryTypeBetweenProcesses) {
  const int size = GetParam();
  in_processes(size, [size](ForkConnector& connector, int rank) {
    const Group group = group_of_all(connector, rank, size);
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
TEST_P(Sockets, SumsLargeTensorsInTheOrderOfRanks) {
  const int size = GetParam();
  in_processes(size, [size](ForkConnector& connector, int rank) {
    const Group group = group_of_all(connector, rank, size);
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

TEST_P(Sockets, AllToAllTakesUnevenAndEmptyRows) {
  const int size = GetParam();
  in_processes(size, [size](ForkConnector& connector, int rank) {
    const Group group = group_of_all(connector, rank, size);
    // Rank r gets r rows from everyone.
    std::vector<std::int64_t> in_rows, out_rows(static_cast<std::size_t>(size), rank);
    for (int peer = 0; peer < size; ++peer) in_rows.push_back(peer);
    Tensor out = filled(-1, {size * rank, 2});
    group.all_to_all(out, filled(rank, {size * (size - 1) / 2, 2}), out_rows, in_rows);
    for (std::int64_t row = 0; row < size * rank; ++row)
      EXPECT_EQ(element(out, 2 * row + 1), static_cast<double>(row / rank));
  });
}

TEST_P(Sockets, ASendNeverWaitsForItsReceiver) {
  const int size = GetParam();
  in_processes(size, [size](ForkConnector& connector, int rank) {
    const Group group = group_of_all(connector, rank, size);
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

TEST_P(Sockets, ReceivesThatWereBegunEarlyArriveInTheirOrder) {
  const int size = GetParam();
  in_processes(size, [size](ForkConnector& connector, int rank) {
    const Group group = group_of_all(connector, rank, size);
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

TEST_P(Sockets, AllGroupsAreConnectedByOneCall) {
  const int size = GetParam();
  in_processes(size, [size](ForkConnector& connector, int rank) {
    const SocketCommunicator me(connector, {.rank = rank, .size = size});
    std::vector<std::vector<int>> lists{all_ranks(size), all_ranks(size), {rank}};
    for (int a = 0; a < size; ++a)
      for (int b = 0; b < size; ++b)
        if (a != b) lists.push_back({a, b});
    const auto many = make_groups(me, lists);
    EXPECT_EQ(connector.num_calls(), 1);
    for (const auto& group : many) {
      Tensor t = filled(rank, {1});
      group.all_reduce_sum(t);
      EXPECT_EQ(element(t, 0), std::accumulate(group.ranks().begin(), group.ranks().end(), 0));
    }
    make_groups(me, {all_ranks(size)});
    EXPECT_EQ(connector.num_calls(), 2);
    make_groups(me, {{rank}});
    EXPECT_EQ(connector.num_calls(), 2);
  });
}

TEST(Sockets, APeerThatDiesOrStaysAwayIsLostNotWaitedFor) {
  in_processes(3,
               [](ForkConnector& connector, int rank) {
                 const SocketCommunicator me(connector, {.rank = rank, .size = 3, .timeout = 5s});
                 const Group group = make_groups(me, {all_ranks(3)})[0];
                 if (rank == 1) _exit(7);
                 Tensor t = filled(1, {4});
                 group.all_reduce_sum(t);
                 group.barrier();
               },
               {kExitPeerLost, 7, kExitPeerLost});
  in_processes(2,
               [](ForkConnector& connector, int rank) {
                 const Seat seat{.size = 2, .timeout = 300ms};
                 if (rank == 0) make_groups(SocketCommunicator(connector, seat), {{0, 1}});
               },
               {kExitPeerLost, 0});
}

// Local sockets are pairs without a name: there is nothing to connect to.
TEST(Sockets, NothingListensWhileGroupsAreMadeAndExist) {
  in_processes(2, [](ForkConnector& connector, int rank) {
    const SocketCommunicator me(connector, {.rank = rank, .size = 2});
    const auto groups = make_groups(me, {{0, 1}, {1, 0}});
    groups[0].barrier();
    for (int number = 0; number < 256; ++number) {
      int listens = 0;
      socklen_t size = sizeof(listens);
      if (getsockopt(number, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0) continue;
      EXPECT_EQ(listens, 0);
    }
    groups[0].barrier();
  });
}

TEST(Sockets, RanksThatDisagreeOnASizeAreToldSo) {
  in_processes(2,
               [](ForkConnector& connector, int rank) {
                 const SocketCommunicator me(connector, {.rank = rank, .size = 2, .timeout = 5s});
                 const Group group = make_groups(me, {{0, 1}})[0];
                 Tensor t = filled(rank, {rank == 0 ? 4 : 6});
                 group.all_reduce_sum(t);
               },
               {kExitPeerLost, kExitPeerLost});
}

TEST(Sockets, AnAbortEndsWhatWaits) {
  in_processes(2, [](ForkConnector& connector, int rank) {
    const SocketCommunicator me(connector, {.rank = rank, .size = 2});
    const Group group = make_groups(me, {{0, 1}})[0];
    Tensor t = filled(rank, {4});
    std::thread other;
    if (rank == 0) other = std::thread([&] { std::this_thread::sleep_for(50ms), me.abort(); });
    EXPECT_THROW(group.receive(t, 1 - rank, 0), PeerLost);
    EXPECT_THROW(group.barrier(), PeerLost);
    if (rank == 0) other.join();
  });
}

}  // namespace
}  // namespace tessera::collective
