#include "tessera/collective/testing/damage.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::collective {
namespace {

using at::Tensor;

Tensor filled(std::initializer_list<double> values) {
  Tensor t = tensor::empty({static_cast<std::int64_t>(values.size())}, at::kDouble);
  std::copy(values.begin(), values.end(), t.data_ptr<double>());
  return t;
}

std::vector<double> values_of(const Tensor& t) {
  const Tensor flat = t.contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

// Four ranks in two rows and two columns: the group of a row, and the group of a column, which is elsewhere.
void on_a_mesh(const std::function<void(const Group& row, const Group& column, int rank)>& body) {
  run_ranks(4, [&](const Communicator& me) {
    const int row = me.rank() / 2, column = me.rank() % 2;
    const auto groups = make_groups(me, {{2 * row, 2 * row + 1}, {column, column + 2}});
    body(groups[0], groups[1], me.rank());
  });
}

using Values = std::vector<double>;

// By harm of the first call what rank 1 gets, rank r having brought r + 1 and, where two are brought, r + 11.
void expect_on_rank_1(CallKind kind, const std::function<Values(const Group&, int rank)>& call,
                      const std::map<Harm, Values>& expected) {
  for (const auto& [harm, values] : expected)
    on_a_mesh([&, harm = harm, values = values](const Group& row, const Group& column, int rank) {
      const Values found = call(damaged(row, {.harm = harm, .kind = kind, .only = 0}, column), rank);
      if (rank != 1) return;
      EXPECT_EQ(found, values) << word(kind) << " " << word(harm);
    });
}

TEST(Damage, MakesEveryKindOfCollectiveWrongInItsOwnWay) {
  using enum Harm;
  expect_on_rank_1(CallKind::all_reduce,
                   [](const Group& group, int rank) {
                     Tensor t = filled({rank + 1.0});
                     group.all_reduce_sum(t);
                     return values_of(t);
                   },
                   {{skipped, {2}}, {twice, {6}}, {scaled, {6}}, {elsewhere, {2 + 4}}});
  expect_on_rank_1(CallKind::all_gather,
                   [](const Group& group, int rank) {
                     Tensor out = filled({0, 0});
                     group.all_gather(out, filled({rank + 1.0}));
                     return values_of(out);
                   },
                   {{skipped, {2, 2}}, {twice, {1, 2}}, {scaled, {2, 4}}, {elsewhere, {2, 4}}});
  expect_on_rank_1(CallKind::reduce_scatter,
                   [](const Group& group, int rank) {
                     Tensor out = filled({0});
                     group.reduce_scatter_sum(out, filled({rank + 1.0, rank + 11.0}));
                     return values_of(out);
                   },
                   {{skipped, {12}}, {twice, {3 + 23}}, {scaled, {46}}, {elsewhere, {2 + 4}}});
  expect_on_rank_1(CallKind::all_to_all,
                   [](const Group& group, int rank) {
                     const std::int64_t rows[] = {1, 1};
                     Tensor out = filled({0, 0});
                     group.all_to_all(out, filled({rank + 1.0, rank + 11.0}), rows, rows);
                     return values_of(out);
                   },
                   {{skipped, {2, 12}}, {twice, {2, 12}}, {scaled, {22, 24}}, {elsewhere, {13, 14}}});
  expect_on_rank_1(CallKind::broadcast,
                   [](const Group& group, int rank) {
                     Tensor t = filled({rank + 1.0});
                     group.broadcast(t, 0);
                     return values_of(t);
                   },
                   {{skipped, {2}}, {twice, {1}}, {scaled, {2}}, {elsewhere, {2}}});
  expect_on_rank_1(CallKind::send,
                   [](const Group& group, int rank) {
                     Tensor first = filled({0}), second = filled({0});
                     if (group.rank() == 0) {
                       group.send(filled({rank + 1.0}), 1, 5);
                       group.send(filled({rank + 7.0}), 1, 5);
                       return Values();
                     }
                     group.receive(first, 0, 5);
                     group.receive(second, 0, 5);
                     return Values{first.item<double>(), second.item<double>()};
                   },
                   {{skipped, {0, 7}}, {twice, {1, 1}}, {scaled, {2, 7}}, {elsewhere, {3, 7}}});
}

TEST(Damage, HitsTheChosenCallAndDirectionAlone) {
  on_a_mesh([](const Group& row, const Group&, int) {
    const Group second = damaged(row, {.harm = Harm::skipped, .only = 1});
    const Group backward = damaged(row, {.harm = Harm::skipped, .direction = CallDirection::backward});
    for (const double expected : {2.0, 1.0, 2.0}) {
      Tensor t = filled({1}), untouched = filled({1});
      second.all_reduce_sum(t);
      backward.all_reduce_sum(untouched);
      EXPECT_EQ(t.item<double>(), expected);
      EXPECT_EQ(untouched.item<double>(), 2);
    }
  });
}

TEST(Calls, AreCountedByKindWithTheBytesOfTheWholeArray) {
  on_a_mesh([](const Group& row, const Group&, int) {
    row.tally().reset(true);
    const Group copy = row;
    const std::int64_t rows[] = {1, 1};
    Tensor one = filled({1}), two = filled({1, 2});
    copy.all_reduce_sum(two);
    row.all_reduce_max(one);
    row.all_gather(two, one);
    row.reduce_scatter_sum(one, two);
    row.all_to_all(two, two.clone(), rows, rows);
    row.broadcast(one, 1);
    if (row.rank() == 0) row.send(two, 1, 3);
    if (row.rank() == 1) row.receive(two, 0, 3);
    row.barrier();
    using enum CallKind;
    std::vector<Call> expected = {{all_reduce, {}, 16},     {all_reduce, {}, 8},  {all_gather, {}, 16},
                                  {reduce_scatter, {}, 16}, {all_to_all, {}, 16}, {broadcast, {}, 8}};
    if (row.rank() == 0) expected.push_back({send, {}, 16});
    EXPECT_EQ(row.tally().list(), expected);
    EXPECT_EQ(copy.tally().volume(all_reduce), (Volume{2, 24}));
    EXPECT_EQ(row.tally().volume(all_reduce, CallDirection::backward), Volume());
    row.tally().reset();
    EXPECT_EQ(copy.tally().volume(all_reduce), Volume());
    EXPECT_TRUE(row.tally().list().empty());
  });
}

TEST(Calls, OfOneMemberAreNotCounted) {
  const Group alone;
  Tensor t = filled({1});
  alone.all_reduce_sum(t);
  alone.all_gather(t, filled({2}));
  for (const auto kind : kCallKinds) EXPECT_EQ(alone.tally().volume(kind), Volume()) << word(kind);
}

TEST(Calls, OfADamagedGroupAreCountedAsTheyWereAsked) {
  on_a_mesh([](const Group& row, const Group& column, int) {
    for (const auto harm : kHarms) {
      const Group wrong = damaged(row, {harm}, column);
      wrong.tally().reset(true);
      Tensor t = filled({1, 2});
      wrong.all_reduce_sum(t);
      EXPECT_EQ(wrong.tally().list(), (std::vector<Call>{{.bytes = 16}})) << word(harm);
    }
  });
}

}  // namespace
}  // namespace tessera::collective
