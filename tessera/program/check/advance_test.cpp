#include "tessera/program/check/advance.hpp"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "tessera/program/passes/chain.hpp"
#include "tessera/program/schedule/dice.hpp"
#include "tessera/program/schedule/schedules.hpp"

namespace tessera::program {
namespace {

bool gets_through(const Program& program, const Partners& partners, Advance::Mode mode) {
  Advance walk(program, partners);
  walk.restart(mode);
  for (std::uint32_t op = walk.next(); op != Advance::kNone; op = walk.next()) walk.end(op);
  return walk.num_left() == 0;
}

// Three ranks that hand each other messages. The order of a channel is kept, the rest is diced: what is
// issued when, on which lane, and what waits for what.
Program random_messages(std::uint64_t seed) {
  Dice dice(seed, "messages");
  Program program;
  program.tables.axes = {{"pp", 3}};
  program.tables.axis_sets = {{"pp", {0}}};
  program.tables.class_of_rank = {0, 1, 2};
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<Op>> sends, receives;  // by rank and peer
  for (std::uint32_t message = 0; message < 6; ++message) {
    const std::uint64_t from = dice.below(3), to = (from + 1 + dice.below(2)) % 3;
    const auto hop = static_cast<std::int16_t>((to + 3 - from) % 3 == 1 ? 1 : -1);
    const Op send{.what = OpKind::send, .item = message, .micro = 0, .along = 0, .hop = hop};
    Op receive = send;
    receive.what = OpKind::receive;
    receive.hop = static_cast<std::int16_t>(-hop);
    sends[{from, to}].push_back(send);
    receives[{to, from}].push_back(receive);
  }
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    Sequence& sequence = program.classes.emplace_back();
    std::vector<std::vector<Op>> channels;
    for (const auto* side : {&sends, &receives})
      for (const auto& [who, ops] : *side)
        if (who.first == rank) channels.emplace_back(ops.rbegin(), ops.rend());
    while (!channels.empty()) {
      auto& channel = channels[dice.below(channels.size())];
      Op op = channel.back();
      channel.pop_back();
      op.lane = communication(0, static_cast<std::uint8_t>(dice.below(2)));
      op.first_wait = static_cast<std::uint32_t>(sequence.waits.size());
      if (!sequence.ops.empty() && dice.below(2) == 0) {
        op.num_waits = 1;
        sequence.waits.push_back(static_cast<std::uint32_t>(dice.below(sequence.ops.size())));
      }
      sequence.ops.push_back(op);
      std::erase_if(channels, [](const auto& ops) { return ops.empty(); });
    }
  }
  return program;
}

// Why check walks a right program once.
TEST(Advance, WhoGetsThroughAStricterWalkGetsThroughALooserOne) {
  int num_free = 0, stuck_in_buffered = 0, stuck_in_rendezvous = 0, stuck_in_one_queue = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const Program program = random_messages(seed);
    std::vector<Problem> problems;
    const Partners partners = find_partners(program, problems);
    ASSERT_EQ(to_text(problems), "") << "seed " << seed;
    const bool buffered = gets_through(program, partners, {.rendezvous = false});
    const bool rendezvous = gets_through(program, partners, {.rendezvous = true});
    const bool one_queue = gets_through(program, partners, {.rendezvous = true, .one_queue = true});
    ASSERT_TRUE(buffered || !rendezvous) << "seed " << seed;
    ASSERT_TRUE(rendezvous || !one_queue) << "seed " << seed;
    num_free += one_queue;
    stuck_in_buffered += !buffered;
    stuck_in_rendezvous += !rendezvous;
    stuck_in_one_queue += !one_queue;
  }
  EXPECT_GT(num_free, 20);
  EXPECT_GT(stuck_in_buffered, 20);
  EXPECT_GT(stuck_in_rendezvous, stuck_in_buffered + 20);
  EXPECT_GT(stuck_in_one_queue, stuck_in_rendezvous + 20);
}

TEST(Advance, StartsEachOpOnceAndInTheOrderOfItsLane) {
  const Costs costs = even_costs(3, 1, {});
  const Program program = chain(one_forward_one_backward({3, 1, 4, costs}), costs);
  std::vector<Problem> problems;
  const Partners partners = find_partners(program, problems);
  Advance walk(program, partners);
  walk.restart({});
  std::vector<int> num_started(partners.num_ops(), 0);
  std::vector<std::uint32_t> last(program.classes.size(), 0);  // of the compute lane
  for (std::uint32_t op = walk.next(); op != Advance::kNone; op = walk.next()) {
    ++num_started[op];
    const Place place = walk.place(op);
    EXPECT_EQ(partners.first[place.rank_class] + place.op, op);
    EXPECT_LT(place.op, program.classes[place.rank_class].ops.size());
    if (program.classes[place.rank_class].ops[place.op].lane == kCompute) {
      EXPECT_GE(place.op, last[place.rank_class]);
      last[place.rank_class] = place.op;
    }
    walk.end(op);
  }
  for (std::uint32_t op = 0; op < partners.num_ops(); ++op) {
    EXPECT_TRUE(walk.is_done(op));
    EXPECT_LE(num_started[op], 1);  // of a transfer one side stands for both
  }
}

}  // namespace
}  // namespace tessera::program
