#include "tessera/testing/async_device/ranks.hpp"

#include <gmock/gmock.h>

#include "tessera/collective/testing/all_ranks.hpp"
#include "tessera/tensor/device.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::async_device {
namespace {

using at::Tensor;
using collective::all_ranks;
using collective::Communicator;
using collective::Group;
using collective::make_groups;
using ::testing::HasSubstr;

Tensor filled(double value, const Communicator& communicator, std::int64_t elements = 4) {
  return tensor::empty({elements}, at::kDouble, communicator.device()).fill_(value);
}

TEST(AsyncRanks, SumGatherAndExchangeAsThreadsDo) {
  Findings found;
  run_ranks(
      {.pace = {.seed = 5}}, 3,
      [](const Communicator& me) {
        const Group group = make_groups(me, {all_ranks(3)})[0];
        Tensor sum = filled(me.rank() + 1, me);
        group.all_reduce_sum(sum);
        EXPECT_EQ(sum.sum().item<double>(), 24);
        Tensor all = filled(0, me, 12);
        group.all_gather(all, filled(me.rank(), me));
        EXPECT_EQ(all.sum().item<double>(), 12);
        Tensor part = filled(0, me);
        group.reduce_scatter_sum(part, all);
        EXPECT_EQ(part.sum().item<double>(), 12 * me.rank());
      },
      &found);
  ASSERT_EQ(found.counts.size(), 3u);
  EXPECT_EQ(found.counts[0].host_waits.at("item"), 3);
  EXPECT_EQ(found.counts[0].launches.at("all_reduce of ranks 0 1 2"), 1);
}

TEST(AsyncRanks, MessagesArriveInTheOrderOfIssueWhateverTheirTags) {
  run_ranks({}, 2, [](const Communicator& me) {
    const Group group = make_groups(me, {all_ranks(2)})[0];
    if (me.rank() == 0) {
      group.send(filled(1, me), 1, 7);
      group.send(filled(2, me), 1, 8);
    } else {
      Tensor first = filled(0, me), second = filled(0, me);
      group.receive(first, 0, 8);
      group.receive(second, 0, 7);
      EXPECT_EQ(first.sum().item<double>(), 4);
      EXPECT_EQ(second.sum().item<double>(), 8);
    }
  });
}

// Rank 0 issues a then b, rank 1 b then a.
void in_opposite_orders(const Communicator& me) {
  const auto groups = make_groups(me, {all_ranks(2), all_ranks(2)});
  Tensor a = filled(1, me), b = filled(2, me);
  for (const int turn : {0, 1})
    (turn == me.rank() ? groups[0].all_reduce_sum(a) : groups[1].all_reduce_sum(b));
  EXPECT_EQ(a.sum().item<double>() + b.sum().item<double>(), 24);
}

TEST(AsyncRanks, OppositeOrdersAreStuckInOneQueueAndNotInTwo) {
  // Both streams of a rank must be free: nothing of the second waits for the first.
  run_ranks({}, 2, [](const Communicator& me) {
    const auto groups = make_groups(me, {all_ranks(2), all_ranks(2)});
    Tensor a = filled(1, me);
    groups[0].all_reduce_sum(a);
    groups[1].all_reduce_sum(a);
    EXPECT_EQ(a.sum().item<double>(), 16);
  });
  try {
    run_ranks({.one_queue = true, .patience_seconds = 1}, 2, in_opposite_orders);
    FAIL() << "they were not stuck";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("stuck: nothing has happened for 1 s"));
    EXPECT_THAT(error.what(), HasSubstr("device 1, stream 1: all_reduce of ranks 0 1"));
  }
}

TEST(AsyncRanks, TwoThatSendFirstAreStuckAndTwoThatShiftAreNot) {
  Findings found;
  run_ranks(
      {.one_queue = true}, 2,
      [](const Communicator& me) {
        const Group group = make_groups(me, {all_ranks(2)})[0];
        Tensor arriving = filled(0, me);
        group.shift(filled(me.rank() + 1, me), 1 - me.rank(), arriving, 1 - me.rank(), 0)();
        EXPECT_EQ(arriving.sum().item<double>(), 4 * (2 - me.rank()));
      },
      &found);
  EXPECT_EQ(found.counts[0].launches.at("shift of ranks 0 1"), 1);
  try {
    run_ranks({.patience_seconds = 1}, 2, [](const Communicator& me) {
      const Group group = make_groups(me, {all_ranks(2)})[0];
      Tensor arriving = filled(0, me);
      group.send(filled(1, me), 1 - me.rank(), 0);
      group.receive(arriving, 1 - me.rank(), 0);
      EXPECT_EQ(arriving.sum().item<double>(), 4);
    });
    FAIL() << "they were not stuck";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("stuck: nothing has happened for 1 s"));
  }
}

TEST(AsyncRanks, AnUnrecordedReadOnAnotherStreamIsSeen) {
  const auto body = [](bool says_so) {
    return [says_so](const Communicator& me) {
      Tensor made = filled(1, me);
      tensor::Event is_made(me.device());
      is_made.record();
      Tensor sum;
      std::thread([&] {
        tensor::use_own_stream(me.device());
        is_made.wait();
        if (says_so) tensor::read_here(made);
        sum = made.sum();
        made = Tensor();
        EXPECT_EQ(sum.item<double>(), 4);
        sum = Tensor();
      }).join();
    };
  };
  run_ranks({}, 1, body(true));
  try {
    run_ranks({}, 1, body(false));
    FAIL() << "it was not seen";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("freed too early: the 32 bytes made by fill_.Scalar"));
    EXPECT_THAT(error.what(), HasSubstr("while sum"));
  }
}

}  // namespace
}  // namespace tessera::async_device
