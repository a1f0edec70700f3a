#include "tessera/collective/group.hpp"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/collective/group_name.hpp"
#include "tessera/collective/testing/all_ranks.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::collective {
namespace {

using at::Tensor;

// Element i on rank r is 1 + r + 10 i: sums and slices are easily told apart.
Tensor filled(int rank, std::int64_t num_rows, at::ScalarType dtype, std::int64_t num_columns = 1) {
  Tensor t = tensor::empty({num_rows, num_columns}, at::kDouble);
  double* data = t.data_ptr<double>();
  for (std::int64_t i = 0; i < t.numel(); ++i) data[i] = 1 + rank + 10.0 * static_cast<double>(i);
  return t.to(dtype);
}

double element(const Tensor& t, std::int64_t i) {
  return t.to(at::kDouble).contiguous().view({-1}).data_ptr<double>()[i];
}

void on_threads(int size, const std::function<void(const Group&)>& body) {
  run_ranks(size, [&](const Communicator& me) {
    const auto groups = make_groups(me, {all_ranks(size)});
    ASSERT_EQ(groups.size(), 1u);
    body(groups[0]);
  });
}

class EveryType : public testing::TestWithParam<std::tuple<int, at::ScalarType>> {};
INSTANTIATE_TEST_SUITE_P(Group, EveryType,
                         testing::Combine(testing::Values(1, 2, 3, 4),
                                          testing::Values(at::kFloat, at::kDouble, at::kBFloat16,
                                                          at::kLong)));

TEST_P(EveryType, SumAndMaximumReachAllMembersForSizesThatDontDivide) {
  const auto [size, dtype] = GetParam();
  on_threads(size, [&, size = size, dtype = dtype](const Group& group) {
    for (const std::int64_t num_elements : {0, 1, 2, 5, 7}) {
      Tensor sum = filled(group.rank(), num_elements, dtype), largest = sum.clone();
      group.all_reduce_sum(sum);
      group.all_reduce_max(largest);
      for (std::int64_t i = 0; i < num_elements; ++i) {
        EXPECT_EQ(element(sum, i), size * (1 + 10 * i) + size * (size - 1) / 2);
        EXPECT_EQ(element(largest, i), size + 10 * i);
      }
    }
  });
}

TEST_P(EveryType, GatherScatterAndBroadcastMoveTheRightRows) {
  const auto [size, dtype] = GetParam();
  on_threads(size, [&, size = size, dtype = dtype](const Group& group) {
    const Tensor mine = filled(group.rank(), 3, dtype);
    Tensor all = mine.new_empty({3 * size, 1});
    group.all_gather(all, mine);
    for (int member = 0; member < size; ++member)
      for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(element(all, 3 * member + i), 1 + member + 10 * i);

    Tensor share = mine.new_empty({2, 1});
    group.reduce_scatter_sum(share, filled(group.rank(), 2 * size, dtype));
    for (std::int64_t i = 0; i < 2; ++i)
      EXPECT_EQ(element(share, i), size * (1 + 10 * (2 * group.rank() + i)) + size * (size - 1) / 2);

    Tensor copy = mine.clone();
    group.broadcast(copy, size - 1);
    EXPECT_TRUE(tensor::bit_equal(copy, filled(size - 1, 3, dtype)));
  });
}

TEST_P(EveryType, AllToAllTakesUnevenAndEmptyRows) {
  const auto [size, dtype] = GetParam();
  on_threads(size, [&, size = size, dtype = dtype](const Group& group) {
    // Member a sends (a + b) mod 3 rows to member b.
    const auto count = [](int a, int b) { return std::int64_t{(a + b) % 3}; };
    std::vector<std::int64_t> in_rows, out_rows;
    for (int peer = 0; peer < size; ++peer) {
      in_rows.push_back(count(group.rank(), peer));
      out_rows.push_back(count(peer, group.rank()));
    }
    const auto total = [](const auto& rows) {
      return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
    };
    const Tensor in = filled(group.rank(), total(in_rows), dtype, 2);
    Tensor out = in.new_empty({total(out_rows), 2});
    group.all_to_all(out, in, out_rows, in_rows);
    std::int64_t row = 0;
    for (int peer = 0; peer < size; ++peer) {
      std::int64_t skipped = 0;
      for (int before = 0; before < group.rank(); ++before) skipped += count(peer, before);
      for (std::int64_t i = 0; i < count(peer, group.rank()); ++i, ++row)
        EXPECT_EQ(element(out, 2 * row), 1 + peer + 10 * 2 * (skipped + i));
    }
  });
}

TEST(Group, HalfWidthSumsAreRoundedOnce) {
  on_threads(4, [](const Group& group) {
    // 256 + 1 is 256 in bf16, so rounding at each step would lose all three ones.
    Tensor t = tensor::zeros({3}, at::kBFloat16).add(group.rank() == 0 ? 256 : 1);
    group.all_reduce_sum(t);
    EXPECT_EQ(element(t, 0), 260);
  });
}

TEST(Group, SumsAreMadeInRankOrder) {
  on_threads(3, [](const Group& group) {
    const double parts[] = {1e17, 1.0, -1e17};
    Tensor t = tensor::zeros({5}, at::kDouble).add(parts[group.rank()]);
    group.all_reduce_sum(t);
    for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(element(t, i), (1e17 + 1.0) - 1e17);
  });
}

TEST(Group, TransposedTensorsAreReducedInPlace) {
  on_threads(2, [](const Group& group) {
    Tensor t = filled(group.rank(), 3, at::kDouble, 2).t();
    group.all_reduce_sum(t);
    EXPECT_EQ(t.size(0), 2);
    EXPECT_EQ(element(t, 1), 2 * (1 + 10 * 2) + 1);
    Tensor all = tensor::zeros({2, 4}, at::kDouble).t();
    group.all_gather(all, filled(group.rank(), 2, at::kDouble, 2).t());
    EXPECT_EQ(element(all, 1), 1 + 20);
  });
}

TEST(Group, MessagesWithOneTagKeepTheirOrderAndTagsAreIndependent) {
  on_threads(3, [](const Group& group) {
    const int next = (group.rank() + 1) % 3, before = (group.rank() + 2) % 3;
    // All send before any receives: a send never waits.
    for (const int tag : {7, 7, 8}) {
      Tensor t = filled(group.rank(), 2, at::kFloat).add(tag);
      group.send(t, next, tag);
      t.zero_();
    }
    Tensor eight = tensor::zeros({2, 1}, at::kFloat), seven = eight.clone();
    group.receive(eight, before, 8);
    group.receive(seven, before, 7);
    EXPECT_EQ(element(eight, 0), 1 + before + 8);
    EXPECT_EQ(element(seven, 0), 1 + before + 7);
  });
}

TEST(Group, OfOneNeverCommunicates) {
  const Group alone;
  EXPECT_EQ(alone.size(), 1);
  EXPECT_EQ(alone.ranks(), std::vector<int>{0});
  EXPECT_EQ(Group(5).ranks(), std::vector<int>{5});
  Tensor t = filled(0, 4, at::kDouble), out = tensor::zeros({4, 1}, at::kDouble);
  const std::int64_t rows[] = {4};
  alone.all_reduce_sum(t);
  alone.barrier();
  alone.broadcast(t, 0);
  alone.all_to_all(out, t, rows, rows);
  EXPECT_TRUE(tensor::bit_equal(out, filled(0, 4, at::kDouble)));
}

TEST(Group, OfOneTakesTensorsThatAreNotDenseInAnyShape) {
  const Group alone;
  const Tensor in = filled(0, 4, at::kDouble, 2).t();
  const std::int64_t one[] = {2};
  Tensor gathered = tensor::zeros({8}, at::kDouble), exchanged = tensor::zeros({2, 2, 2}, at::kDouble);
  alone.all_gather(gathered, in);
  alone.all_to_all(exchanged, in, one, one);
  for (const Tensor& out : {gathered, exchanged})
    EXPECT_TRUE(tensor::bit_equal(out.view({8}), in.contiguous().view({8})));
}

TEST(Group, ReceivesThatWereBegunEarlyArriveInTheirOrder) {
  on_threads(3, [](const Group& group) {
    const int next = (group.rank() + 1) % 3, previous = (group.rank() + 2) % 3;
    Tensor first = filled(9, 2, at::kDouble), second = filled(9, 2, at::kDouble);
    const auto wait_first = group.expect(first, previous, 4), wait_second = group.expect(second, previous, 4);
    group.send(filled(group.rank(), 2, at::kDouble), next, 4);
    group.send(filled(group.rank() + 10, 2, at::kDouble), next, 4);
    wait_first();
    wait_second();
    EXPECT_TRUE(tensor::bit_equal(first, filled(previous, 2, at::kDouble)));
    EXPECT_TRUE(tensor::bit_equal(second, filled(previous + 10, 2, at::kDouble)));
  });
}

TEST(Group, ShiftsGoRoundARingAndCountAsSends) {
  for (const int size : {2, 3})
    on_threads(size, [size](const Group& group) {
      const int next = (group.rank() + 1) % size, previous = (group.rank() + size - 1) % size;
      Tensor t = filled(group.rank(), 2, at::kDouble);
      for (int hop = 1; hop < 4; ++hop) {
        Tensor arriving = filled(9, 2, at::kDouble);
        group.shift(t, next, arriving, previous, 0)();
        t = arriving;
        EXPECT_TRUE(tensor::bit_equal(t, filled((group.rank() + 3 * size - hop) % size, 2, at::kDouble)));
      }
      EXPECT_EQ(group.tally().volume(CallKind::send).calls, 3);
    });
}

TEST(MakeGroups, NamesOfGroupsAreShortAndDiffer) {
  std::vector<int> many = all_ranks(16384);
  std::set<std::string> names{group_name(many)};
  EXPECT_LT(names.begin()->size(), 40u);
  std::swap(many[100], many[101]);
  const std::vector<std::vector<int>> lists{many, {0, 1}, {1, 0}, {0, 12}, {0, 1, 2}, {1, 2}, {0, 2}};
  for (const auto& list : lists) names.insert(group_name(list));
  EXPECT_EQ(names.size(), 1 + lists.size());
}

TEST(MakeGroups, GivesOneGroupPerListThatHoldsThisRankInTheirOrder) {
  run_ranks(4, [](const Communicator& me) {
    const std::vector<std::vector<int>> lists{{0, 1}, {2, 3}, {3, 1}, {0}, {1}, {0, 2}, {2}, {3}, {0, 1}};
    std::vector<std::vector<int>> mine;
    for (const auto& list : lists)
      if (std::ranges::find(list, me.rank()) != list.end()) mine.push_back(list);
    const auto groups = make_groups(me, lists);
    ASSERT_EQ(groups.size(), mine.size());
    for (std::size_t i = 0; i < groups.size(); ++i) {
      EXPECT_EQ(groups[i].ranks(), mine[i]);
      EXPECT_EQ(mine[i][static_cast<std::size_t>(groups[i].rank())], me.rank());
      Tensor t = tensor::zeros({1}, at::kDouble).add(me.rank());
      groups[i].all_reduce_sum(t);
      EXPECT_EQ(element(t, 0), std::accumulate(mine[i].begin(), mine[i].end(), 0));
    }
  });
}

TEST(MakeGroups, RefusesRanksThatDontExistOrComeTwice) {
  run_ranks(2, [](const Communicator& me) {
    EXPECT_THROW(make_groups(me, {{0, 2}}), Bug);
    EXPECT_THROW(make_groups(me, {{1, 1}}), Bug);
    EXPECT_THROW(make_groups(me, {{}}), Bug);
  });
}

TEST(RunRanks, RethrowsTheFirstErrorAndFreesThoseWhoWait) {
  std::atomic<int> num_lost = 0;
  const auto body = [&](const Communicator& me) {
    const auto group = make_groups(me, {all_ranks(4)})[0];
    try {
      group.barrier();
      if (me.rank() == 2) throw UserError("rank 2 is wrong");
      Tensor t = tensor::zeros({2}, at::kFloat);
      if (me.rank() == 3)
        group.receive(t, 2, 0);
      else
        group.all_reduce_sum(t);
    } catch (const PeerLost& error) {
      EXPECT_NE(std::string(error.what()).find("rank 2 left"), std::string::npos) << error.what();
      ++num_lost;
      throw;
    }
  };
  try {
    run_ranks(4, body);
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "rank 2 is wrong");
  }
  EXPECT_EQ(num_lost, 3);
}

TEST(RunRanks, ARankThatReturnsEarlyEndsItsPeersWaits) {
  EXPECT_THROW(run_ranks(3,
                         [](const Communicator& me) {
                           const auto group = make_groups(me, {all_ranks(3)})[0];
                           if (me.rank() != 1) group.barrier();
                         }),
               PeerLost);
}

TEST(RunRanks, LateGroupsWithADepartedRankAreLostToo) {
  EXPECT_THROW(run_ranks(2,
                         [](const Communicator& me) {
                           if (me.rank() == 0) return;
                           const auto group = make_groups(me, {{0, 1}})[0];
                           group.barrier();
                         }),
               PeerLost);
}

TEST(RunRanks, TooManyThreadsAreAUsersMistakeAndNoRankRuns) {
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(1);  // root has no such limit
    const rlimit few{8, 8};
    setrlimit(RLIMIT_NPROC, &few);
    std::atomic<int> num_run = 0;
    try {
      run_ranks(64, [&](const Communicator& me) {
        ++num_run;
        make_groups(me, {all_ranks(64)})[0].barrier();
      });
    } catch (const UserError& error) {
      const bool is_told = std::string(error.what()).starts_with("starting 64 ranks as threads failed");
      _exit(is_told && num_run == 0 ? 42 : 2);
    }
    _exit(3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

TEST(RunRanks, ManyShortOperationsOfMoreRanksThanCoresEnd) {
  on_threads(8, [](const Group& group) {
    Tensor t = tensor::zeros({9}, at::kDouble).add(1);
    for (int i = 0; i < 200; ++i) {
      Tensor copy = t.clone();
      group.all_reduce_sum(copy);
      ASSERT_EQ(element(copy, 8), 8);
    }
  });
}

}  // namespace
}  // namespace tessera::collective
