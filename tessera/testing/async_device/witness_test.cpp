// Does the witness accuse whom it should, and nobody else?
#include "tessera/testing/async_device/witness.hpp"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>
#include <vector>

namespace tessera::async_device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr std::size_t kBytes = 256;

class WitnessTest : public testing::Test {
 protected:
  WitnessTest() : compute_(witness_.default_stream(0)), other_(witness_.new_stream(0)) {
    memory_ = witness_.allocate(kBytes, compute_);
  }
  Point run(Stream& stream, const char* doing, bool writes, std::size_t begin = 0,
            std::size_t bytes = kBytes) {
    const Access access{memory_ + begin, bytes, writes};
    return witness_.issue(stream, doing, std::span(&access, 1), [] {});
  }
  Point write(Stream& stream, const char* doing) { return run(stream, doing, true); }
  Point read(Stream& stream, const char* doing) { return run(stream, doing, false); }

  Witness witness_{Pace{.seed = 3}};
  Stream &compute_, &other_;
  std::byte* memory_ = nullptr;
};

TEST_F(WitnessTest, TasksOfAStreamAreDoneInOrderWhileTheHostGoesOn) {
  std::vector<int> done;
  std::atomic<bool> may_begin = false;
  witness_.issue(compute_, "first", {}, [&] { may_begin.wait(false); });
  for (int i = 0; i < 20; ++i) witness_.issue(compute_, "next", {}, [&done, i] { done.push_back(i); });
  const Point last = witness_.now(compute_);
  EXPECT_FALSE(witness_.has_passed(last));
  may_begin = true;
  may_begin.notify_all();
  witness_.host_wait(last, "test");
  EXPECT_EQ(done.size(), 20u);
  EXPECT_TRUE(std::ranges::is_sorted(done));
  EXPECT_THAT(witness_.counts(0).host_waits, ElementsAre(Pair("test", 1)));
}

TEST_F(WitnessTest, AWriteAndAReadOnTwoStreamsAreARace) {
  write(compute_, "fill");
  read(other_, "send");
  ASSERT_EQ(witness_.problems().size(), 1u);
  EXPECT_THAT(witness_.problems().begin()->first,
              AllOf(HasSubstr("race: send reads the 256 bytes made by fill on stream 1"),
                    HasSubstr("fill, which writes it")));
}

TEST_F(WitnessTest, NewMemoryMayHaveBeenTheStreamsBefore) {
  write(compute_, "earlier");
  std::byte* const next = witness_.allocate(kBytes, compute_);
  const Access access{next, kBytes, true};
  witness_.issue(other_, "receive", std::span(&access, 1), [] {});
  ASSERT_EQ(witness_.problems().size(), 1u);
  EXPECT_THAT(
      witness_.problems().begin()->first,
      HasSubstr("race: receive writes the 256 bytes made by nobody yet on stream 1, and nothing orders "
                "it after allocation"));
}

TEST_F(WitnessTest, AnEventOrdersAndSoDoesTheHost) {
  witness_.order(other_, write(compute_, "fill"));
  const Point read_there = read(other_, "send");
  EXPECT_THAT(witness_.problems(), IsEmpty());
  witness_.host_wait(read_there, "stream");
  write(compute_, "fill");
  EXPECT_THAT(witness_.problems(), IsEmpty());
}

TEST_F(WitnessTest, OrderIsHandedOnFromStreamToStream) {
  Stream& third = witness_.new_stream(0);
  witness_.order(other_, write(compute_, "fill"));
  witness_.order(third, witness_.now(other_));
  write(third, "scale");
  EXPECT_THAT(witness_.problems(), IsEmpty());
}

TEST_F(WitnessTest, ReadsDoNotMeetAndNeitherDoOtherBytes) {
  read(compute_, "a");
  read(other_, "b");
  run(other_, "c", true, 0, 0);
  EXPECT_THAT(witness_.problems(), IsEmpty());
  Witness apart(Pace{});
  Stream &one = apart.default_stream(0), &two = apart.new_stream(0);
  std::byte* memory = apart.allocate(kBytes, one);
  apart.order(two, apart.now(one));
  const Access low{memory, 128, true}, high{memory + 128, 128, true};
  apart.issue(one, "low", std::span(&low, 1), [] {});
  apart.issue(two, "high", std::span(&high, 1), [] {});
  EXPECT_THAT(apart.problems(), IsEmpty());
}

TEST_F(WitnessTest, MemoryThatAnotherStreamUsesMustBeRecordedThere) {
  witness_.order(other_, write(compute_, "fill"));
  read(other_, "send");
  witness_.release(memory_);
  ASSERT_EQ(witness_.problems().size(), 1u);
  EXPECT_THAT(
      witness_.problems().begin()->first,
      HasSubstr("freed too early: the 256 bytes made by fill on the default stream, while send may still "
                "use it on stream 1"));
}

TEST_F(WitnessTest, RecordedMemoryStaysUntilThatStreamIsPast) {
  std::atomic<bool> may_end = false;
  witness_.order(other_, write(compute_, "fill"));
  const Access access{memory_, kBytes, false};
  witness_.issue(other_, "send", std::span(&access, 1), [&] { may_end.wait(false); });
  witness_.record(memory_, other_);
  witness_.release(memory_);
  EXPECT_THAT(witness_.problems(), IsEmpty());
  EXPECT_EQ(witness_.counts(0).bytes_held, static_cast<std::int64_t>(kBytes));
  may_end = true;
  may_end.notify_all();
  witness_.host_wait(witness_.now(other_), "test");
  EXPECT_NE(witness_.allocate(kBytes, compute_), nullptr);
  EXPECT_EQ(witness_.counts(0).bytes_held, static_cast<std::int64_t>(kBytes)) << "only what is new";
}

TEST_F(WitnessTest, ARecordedStreamKnowsWhatItHasWaitedFor) {
  Stream& third = witness_.new_stream(0);
  witness_.order(third, write(compute_, "fill"));
  witness_.order(other_, read(third, "all_gather"));
  witness_.record(memory_, other_);
  witness_.release(memory_);
  EXPECT_THAT(witness_.problems(), IsEmpty());
}

TEST_F(WitnessTest, WhatOneThreadHasWaitedForNoOtherKnows) {
  const Point filled = write(compute_, "fill");
  std::thread([&] { witness_.host_wait(filled, "test"); }).join();
  read(other_, "send");
  EXPECT_EQ(witness_.problems().size(), 1u);
}

TEST_F(WitnessTest, LabelsNameTheOpThatATaskIsAPartOf) {
  witness_.label(compute_, "F2.1");
  write(compute_, "mm");
  const Access access{memory_, kBytes, false};
  witness_.issue(
      other_, "all_gather", std::span(&access, 1), [] {}, &compute_);
  ASSERT_EQ(witness_.problems().size(), 1u);
  EXPECT_THAT(witness_.problems().begin()->first,
              HasSubstr("all_gather of F2.1 reads the 256 bytes made by mm of F2.1"));
}

TEST_F(WitnessTest, AFailureEndsAllWaits) {
  const Point failing =
      witness_.issue(other_, "fails", {}, [] { throw std::runtime_error("no such kernel"); });
  witness_.order(compute_, failing);
  EXPECT_THROW(witness_.host_wait(witness_.issue(compute_, "next", {}, [] {}), "test"), DeviceFailed);
  EXPECT_EQ(witness_.failure().text(), "no such kernel");
}

TEST_F(WitnessTest, StreamsRaceInPinnedMemoryOfTheHostToo) {
  std::vector<std::byte> pinned(kBytes);
  witness_.watch(pinned.data(), kBytes);
  const Access put{pinned.data(), kBytes, true}, fetch{pinned.data(), kBytes, false};
  const Point is_put = witness_.issue(other_, "put", std::span(&put, 1), [] {});
  witness_.issue(compute_, "early", std::span(&fetch, 1), [] {});
  witness_.order(compute_, is_put);
  witness_.issue(compute_, "in time", std::span(&fetch, 1), [] {});
  EXPECT_THAT(witness_.problems(), ElementsAre(Pair(HasSubstr("race: early reads the 256 bytes"), 1)));
  witness_.forget(pinned.data());
}

TEST_F(WitnessTest, WhatIsGoneIsNotTouched) {
  witness_.release(memory_);
  read(compute_, "late");
  EXPECT_THAT(witness_.problems(), ElementsAre(Pair(HasSubstr("use after free: late"), 1)));
}

}  // namespace
}  // namespace tessera::async_device
