#include "tessera/program/diagnose/hang_diagnosis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "tessera/program/ir/text.hpp"
#include "tessera/program/passes/generate.hpp"
#include "tessera/program/testing/examples.hpp"

namespace tessera::program {
namespace {

using testing::HasSubstr;

constexpr double kNow = 1000;

std::int32_t find(const Program& program, std::size_t rank_class, const std::string& wanted) {
  const auto& ops = program.classes[rank_class].ops;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (word(ops[i], program.tables) == wanted) return static_cast<std::int32_t>(i);
  ADD_FAILURE() << "no " << wanted;
  return -1;
}

// A rank alive whose lane of that op is in it since `since`; ops of a communication lane leave the compute
// lane where it is.
void put(RankState& state, const Program& program, std::size_t rank_class, std::int32_t op, double since,
         std::int64_t step = 3) {
  const Op& at = program.classes[rank_class].ops[static_cast<std::size_t>(op)];
  const Doing doing = at.along >= 0 ? Doing::communicating : Doing::computing;
  state.beat_seconds = kNow - 0.05;
  if (state.lanes.empty()) state.lanes.push_back({-1, 0, {}});
  if (at.lane.axes >= 0) state.lanes.push_back({at.lane.axes, at.lane.direction, {}});
  state.lanes.back().recent.push_back({doing, op, step, kNow - since - 0.1, kNow - since, 0});
}

class Stuck : public testing::Test {
 protected:
  // Four data-parallel ranks; class 1 is rank 2.
  Stuck()
      : program_(data_parallel(example_tables({.num_micro = 1, .dp = 4}), {.residency = {.overlap = true}})) {
    program_.tables.class_of_rank = {0, 0, 1, 0};
    program_.classes.push_back(program_.classes[0]);
    for (auto& state : states_) state.beat_seconds = kNow;
  }
  Verdict verdict() const { return find_culprit(program_, states_, kNow); }

  Program program_;
  std::vector<RankState> states_ = std::vector<RankState>(4);
};

TEST_F(Stuck, ARankThatComputesWhileTheOthersWaitIsNamedWithItsOp) {
  for (const int rank : {0, 1, 3}) put(states_[rank], program_, 0, find(program_, 0, "r3!"), 31);
  put(states_[2], program_, 1, find(program_, 1, "1F0"), 31.2);
  EXPECT_EQ(verdict().rank, 2);
  EXPECT_EQ(verdict().op, find(program_, 1, "1F0"));
  EXPECT_EQ(
      verdict().sentence,
      "rank 0 is at op 6 (r3!, reduction of head) of step 3 for 31.0 s; rank 2 never came to it: it is in "
      "op 2 (1F0, forward of block.0, micro-batch 0) of step 3 for 31.2 s; ranks 1, 3 wait too");
}

TEST_F(Stuck, ASilentRankIsNamedEvenInsideTheSameCollective) {
  for (const int rank : {0, 1, 2, 3}) put(states_[rank], program_, 0, find(program_, 0, "r3!"), 6);
  states_[3].beat_seconds = kNow - 5;
  EXPECT_EQ(verdict().rank, 3);
  EXPECT_THAT(verdict().sentence, HasSubstr("rank 3 is silent for 5.0 s, last seen in op 6"));
}

TEST_F(Stuck, ARankThatReadsDataIsLateForTheFirstSum) {
  for (const int rank : {0, 1, 3}) put(states_[rank], program_, 0, find(program_, 0, "+tokens"), 4);
  states_[2] = states_[1];
  states_[2].lanes = {{-1, 0, {{Doing::reading_data, -1, 3, kNow - 5, kNow - 5, 0}}}};
  EXPECT_EQ(verdict().rank, 2);
  EXPECT_THAT(verdict().sentence, HasSubstr("reading the data of step 3 for 5.0 s"));
}

TEST_F(Stuck, ARankOfAnotherProgramIsNamedAndNothingIsReadBeyondThisOne) {
  for (const int rank : {0, 1, 3}) put(states_[rank], program_, 0, find(program_, 0, "r3!"), 5);
  for (const std::int32_t op : {1000, 1 << 30}) {
    states_[2].lanes = {{-1, 0, {{Doing::communicating, op, 3, kNow - 5, kNow - 5, 0}}}};
    EXPECT_EQ(verdict().rank, 2) << op;
  }
  EXPECT_THAT(verdict().sentence, HasSubstr("it runs another program"));
}

TEST_F(Stuck, ARankThatFinishedIsNotSilent) {
  for (const int rank : {0, 1, 3}) put(states_[rank], program_, 0, find(program_, 0, "r3!"), 50);
  states_[1].lanes = {{-1, 0, {{Doing::finished, -1, 0, kNow - 60, kNow - 60, kNow - 60}}}};
  states_[1].beat_seconds = kNow - 60;
  put(states_[2], program_, 1, find(program_, 1, "1F0"), 51);
  EXPECT_EQ(verdict().rank, 2);
}

TEST_F(Stuck, ARankInTheMiddleOfSomethingIsNamedBeforeOnesThatEndedTheirs) {
  for (const int rank : {0, 1, 2, 3}) {
    states_[rank].beat_seconds = kNow;
    states_[rank].lanes = {{-1, 0, {{Doing::closing, -1, 0, kNow - 9, kNow - 9, kNow - 8}}}};
  }
  states_[2].lanes = {{-1, 0, {{Doing::closing, -1, 0, kNow - 7, kNow - 7, 0}}}};
  EXPECT_EQ(verdict().rank, 2);
  EXPECT_THAT(verdict().sentence, HasSubstr("closing its files for 7.0 s"));
}

TEST_F(Stuck, ThousandsOfRanksAreJudgedAtOnce) {
  Program wide =
      data_parallel(example_tables({.num_micro = 1, .dp = 4096}), {.residency = {.overlap = true}});
  std::vector<RankState> states(4096);
  for (std::size_t rank = 0; rank < states.size(); ++rank)
    put(states[rank], wide, 0, find(wide, 0, rank < 2000 ? "r3!" : "1F0"), 31);
  const auto start = std::clock();
  const auto found = find_culprit(wide, states, kNow);
  EXPECT_GE(found.rank, 2000);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 10.0);
  EXPECT_THAT(found.sentence, HasSubstr("ranks 1 to 1999 wait too"));
}

TEST_F(Stuck, ARankThatNeverCameToTheMeetingIsNamed) {
  for (const int rank : {0, 1, 3}) {
    states_[rank].beat_seconds = kNow;
    states_[rank].lanes = {{-1, 0, {{Doing::meeting, -1, 0, kNow - 9, kNow - 9, 0}}}};
  }
  EXPECT_EQ(verdict().rank, 2);
  EXPECT_THAT(verdict().sentence, HasSubstr("rank 2 never came: it is starting"));
  states_[2].beat_seconds = 0;
  EXPECT_EQ(verdict().rank, 2);
  EXPECT_THAT(verdict().sentence, HasSubstr("rank 2 is not heard of since it was started"));
}

// Ranks 0 and 2 of the four pass a value: class 1 receives what class 2 sends.
class StuckTransfer : public Stuck {
 protected:
  StuckTransfer() {
    program_.tables.class_of_rank = {2, 0, 1, 0};
    program_.classes.push_back(program_.classes[0]);
    insert(1, OpKind::receive, -2);
    insert(2, OpKind::send, 2);
  }
  void insert(std::size_t rank_class, OpKind what, std::int16_t hop) {
    Op op;
    op.what = what;
    op.item = 0;
    op.micro = 0;
    op.along = 0;
    op.hop = hop;
    auto& ops = program_.classes[rank_class].ops;
    ops.insert(ops.begin() + 3, op);
  }
};

TEST_F(StuckTransfer, ASendThatWasNotIssuedYet) {
  put(states_[2], program_, 1, 3, 31);
  put(states_[0], program_, 2, 2, 31);
  for (const int rank : {1, 3}) put(states_[rank], program_, 0, find(program_, 0, "r3!"), 30);
  EXPECT_EQ(verdict().rank, 0);
  EXPECT_EQ(
      verdict().sentence,
      "rank 2 is at op 3 (<0.0, receive of value hidden.0, micro-batch 0 from rank 0) of step 3 for 31.0 s; "
      "rank 0 never issued the send: it is in op 2 (1F0, forward of block.0, micro-batch 0) of step 3 for "
      "31.0 s; ranks 1, 3 wait too");
}

TEST_F(StuckTransfer, ASendThatTheProgramLacks) {
  auto& ops = program_.classes[2].ops;
  ops.erase(ops.begin() + 3);
  put(states_[2], program_, 1, 3, 31);
  put(states_[0], program_, 2, find(program_, 2, "r3!"), 30);
  EXPECT_EQ(verdict().rank, 0);
  EXPECT_THAT(verdict().sentence, HasSubstr("rank 0 never issued the send: its program has none"));
}

TEST_F(StuckTransfer, AReceiveThatTheProgramLacks) {
  auto& ops = program_.classes[1].ops;
  ops.erase(ops.begin() + 3);
  states_[0].beat_seconds = kNow;
  states_[0].lanes = {{-1, 0, {{Doing::sending, 3, 3, kNow - 4, kNow - 4, 0}}}};
  put(states_[2], program_, 1, 2, 0.5, 4);
  EXPECT_EQ(verdict().rank, 2);
  EXPECT_THAT(verdict().sentence, HasSubstr("rank 2 never issued the receive: its program has none"));
}

TEST_F(StuckTransfer, RanksThatWaitForEachOtherAreNamedWithBothOps) {
  // Rank 0 reduces before it sends.
  auto& ops = program_.classes[2].ops;
  const auto reduce = find(program_, 2, "r3!");
  std::rotate(ops.begin() + 3, ops.begin() + reduce, ops.begin() + reduce + 1);
  put(states_[2], program_, 1, 3, 31);
  put(states_[0], program_, 2, 3, 31);
  for (const int rank : {1, 3}) put(states_[rank], program_, 0, find(program_, 0, "r3!"), 30);
  EXPECT_THAT(verdict().sentence, HasSubstr("receive of value hidden.0, micro-batch 0 from rank 0"));
  EXPECT_THAT(verdict().sentence, HasSubstr("reduction of head"));
  EXPECT_THAT(verdict().sentence, HasSubstr("wait for each other"));
}

TEST_F(Stuck, AMeetingThatAllHaveComeToIsTold) {
  program_ = data_parallel(example_tables({.num_micro = 1, .dp = 4}), {.residency = {.overlap = false}});
  const auto reduce = find(program_, 0, "r3!");
  for (const int rank : {0, 1, 2, 3}) put(states_[rank], program_, 0, reduce, 5 + rank);
  EXPECT_EQ(verdict().rank, 3);
  EXPECT_THAT(verdict().sentence, HasSubstr("all its ranks have come to it"));
}

TEST_F(Stuck, TheOneThatMostOthersContradictIsNamed) {
  auto& ops = program_.classes[1].ops;  // rank 2
  const auto first = find(program_, 1, "r3!"), second = find(program_, 1, "r2!");
  std::swap(ops[static_cast<std::size_t>(first)], ops[static_cast<std::size_t>(second)]);
  for (const int rank : {0, 1, 3}) put(states_[rank], program_, 0, first, 5);
  put(states_[2], program_, 1, first, 5);
  EXPECT_EQ(verdict().rank, 2);
  EXPECT_THAT(verdict().sentence, HasSubstr("(r2!, reduction of block.1) in its place"));
}

}  // namespace
}  // namespace tessera::program
