#include "tessera/simulate/profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/testing/examples.hpp"

namespace tessera::simulate {
namespace {

using program::Op;
using program::OpKind;
using testing::HasSubstr;

// Values of 1000 bytes, buckets of 64 fp32 elements, two data-parallel ranks.
const program::Tables kTables = program::example_tables({.num_blocks = 2, .num_micro = 2, .dp = 2});
constexpr std::int64_t kValueBytes = 1000, kBucketBytes = 256;

RanOp ran(OpClass kind, std::int64_t size, double start, double end, const std::string& word = "",
          std::int64_t step = 2) {
  return {.kind = kind, .size = size, .lane = "lane", .word = word, .step = step, .span = {start, end}};
}

double seconds(const std::vector<RanOp>& ops, const Op& op) {
  const auto cost = Profile(ops).cost(op, kTables);
  EXPECT_EQ(cost.phases.size(), 1u);
  return cost.phases.at(0).seconds;
}

const Op kForward{.what = OpKind::forward, .item = 1, .micro = 1};
const Op kBackward{.what = OpKind::backward, .item = 1, .micro = 0};
const Op kSend{.what = OpKind::send, .item = 1, .micro = 0, .along = 0, .hop = 1};

TEST(Profile, AnOpTakesTheMedianOfItsKindAndSegment) {
  const OpClass own{OpKind::forward, 1, 1}, other{OpKind::forward, 2, 1};
  EXPECT_DOUBLE_EQ(seconds({ran(own, kValueBytes, 0, 1), ran(own, kValueBytes, 10, 12),
                            ran(own, kValueBytes, 20, 29), ran(other, kValueBytes, 30, 90)},
                           kForward),
                   2);
}

TEST(Profile, AnotherSizeOfMicroBatchScalesTheNearestThatWasMeasured) {
  const OpClass own{OpKind::forward, 1, 1};
  EXPECT_DOUBLE_EQ(seconds({ran(own, 2000, 0, 1), ran(own, 8000, 0, 100)}, kForward), 0.5);
}

TEST(Profile, WaitingForTheOtherSideIsNoCost) {
  const OpClass kind{OpKind::send, -1, 2};
  EXPECT_DOUBLE_EQ(
      seconds({ran(kind, kValueBytes, 0, 7, "<1.0"), ran(kind, kValueBytes, 5, 6, ">1.0!")}, kSend), 2);
  const OpClass reduce{OpKind::reduce, -1, 2};
  const Op op{.what = OpKind::reduce, .item = 0, .along = 0};
  EXPECT_DOUBLE_EQ(
      seconds({ran(reduce, kBucketBytes, 0, 9, "r0!"), ran(reduce, kBucketBytes, 6, 9, "r0!"),
               ran(reduce, kBucketBytes, 10, 14, "r0!", 3), ran(reduce, kBucketBytes, 11, 14, "r0!", 3),
               ran(reduce, kBucketBytes, 20, 29, "r0!", 4), ran(reduce, kBucketBytes, 26, 29, "r0!", 4)},
              op),
      3);
}

TEST(Profile, MeetingsThatCannotBeToldApartAreLeftOut) {
  const OpClass kind{OpKind::send, -1, 2};
  EXPECT_DOUBLE_EQ(seconds({ran(kind, kValueBytes, 0, 9, "<1.0"), ran(kind, kValueBytes, 0, 9, ">1.0"),
                            ran(kind, kValueBytes, 0, 9, "<1.0"), ran(kind, kValueBytes, 0, 9, ">1.0"),
                            ran(kind, kValueBytes, 0, 1, "<1.1"), ran(kind, kValueBytes, 0, 1, ">1.1")},
                           kSend),
                   1);
}

TEST(Profile, ABackwardThatWasMeasuredInHalvesTakesBoth) {
  EXPECT_DOUBLE_EQ(seconds({ran({OpKind::backward_input, 1, 1}, kValueBytes, 0, 2),
                            ran({OpKind::backward_weight, 1, 1}, kValueBytes, 2, 5)},
                           kBackward),
                   5);
}

TEST(Profile, AKindThatWasNotMeasuredIsNamedWithTheRunThatMeasuresIt) {
  const Profile empty{{}};
  const auto message = [&](const Op& op) -> std::string {
    try {
      empty.cost(op, kTables);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message({.what = OpKind::backward_weight, .item = 1, .micro = 0}), HasSubstr("1W0"));
  EXPECT_THAT(message({.what = OpKind::backward_weight, .item = 1, .micro = 0}), HasSubstr("zb-h1"));
  EXPECT_THAT(message(kSend), HasSubstr("in which 2 rank(s) do it"));
}

TEST(Profile, CommunicationHoldsItsLinkAndComputeNone) {
  const Profile profile(std::vector{ran({OpKind::forward, 1, 1}, kValueBytes, 0, 1),
                                    ran({OpKind::send, -1, 2}, kValueBytes, 0, 1, ">1.0"),
                                    ran({OpKind::send, -1, 2}, kValueBytes, 0, 1, "<1.0")});
  EXPECT_EQ(profile.cost(kForward, kTables).phases.at(0).axes, -1);
  EXPECT_EQ(profile.cost(kSend, kTables).phases.at(0).axes, 0);
  EXPECT_EQ(profile.cost(kSend, kTables).bytes, kValueBytes);
}

TEST(Profile, ReceivesAreOneKindWithSends) {
  const Op receive{.what = OpKind::receive, .item = 1, .micro = 0, .along = 0, .hop = -1};
  EXPECT_EQ(kind_of(receive, kTables), kind_of(kSend, kTables));
  EXPECT_EQ(op_size({.what = OpKind::step, .item = 0}, kTables), kBucketBytes);
  EXPECT_EQ(op_size({.what = OpKind::sum, .item = 0}, kTables), 0);
}

}  // namespace
}  // namespace tessera::simulate
