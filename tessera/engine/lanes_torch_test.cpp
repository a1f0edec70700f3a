// Do lanes order an accelerator's streams, and what is issued on them, as the program says? On a device that
// only keeps a log.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "tessera/engine/lanes.hpp"
#include "tessera/program/ir/calls.hpp"
#include "tessera/program/ir/waits.hpp"
#include "tessera/program/passes/chain.hpp"
#include "tessera/program/passes/generate.hpp"
#include "tessera/program/schedule/schedules.hpp"
#include "tessera/program/testing/examples.hpp"
#include "tessera/tensor/streams_only.hpp"

namespace tessera::engine {
namespace {

using tensor::StreamsOnly;

using OpOfStep = std::pair<std::uint64_t, std::uint32_t>;

// What is sure to be done when a stream gets past the last thing it was given, and past an event.
struct Log {
  std::mutex mutex;
  std::map<c10::StreamId, std::set<OpOfStep>> past_stream;
  std::map<void*, std::set<OpOfStep>> past_event;
  std::size_t num_events = 0;
};
Log the_log;

class LoggedDevice final : public StreamsOnly {
 public:
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    const std::scoped_lock lock(the_log.mutex);
    if (!*event) *event = reinterpret_cast<void*>(++the_log.num_events);
    the_log.past_event[*event] = the_log.past_stream[stream.id()];
  }
  void block(void* event, const c10::Stream& stream) const override {
    const std::scoped_lock lock(the_log.mutex);
    the_log.past_stream[stream.id()].merge(std::set(the_log.past_event[event]));
  }
};

const c10::impl::DeviceGuardImplRegistrar registered(StreamsOnly::kType, new LoggedDevice());

void make_step(Lanes& lanes, std::uint64_t number) {
  lanes.begin();
  lanes.finish(number);
}

TEST(Lanes, AStepIsNotOverBeforeTheUpdatesAndFreesOfOtherLanes) {
  auto program = program::data_parallel(program::example_tables({.resident = false}), {});
  auto& sequence = program.classes.front();
  for (auto& op : sequence.ops)
    if (op.what == program::OpKind::step || op.what == program::OpKind::free) op.lane = program::kCopy;
  program::build_waits(sequence, program.tables);
  std::atomic<std::size_t> num_done = 0;
  const auto run = [&](std::uint32_t index, std::uint64_t) {
    if (sequence.ops[index].lane == program::kCopy) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ++num_done;
  };
  Lanes lanes(sequence, program.tables, run, nullptr);
  make_step(lanes, 1);
  EXPECT_EQ(num_done, sequence.ops.size());
}

TEST(Lanes, AStreamWaitsForWhatItsOpWaitsForOnOtherLanes) {
  constexpr std::uint64_t kSteps = 3;
  const auto program = program::data_parallel(program::example_tables({.resident = false}), {}, true);
  const auto& sequence = program.classes.front();
  std::vector<std::uint64_t> steps(sequence.ops.size());
  std::size_t num_crossings = 0;
  the_log.num_events = 0;
  const auto run = [&](std::uint32_t index, std::uint64_t) {
    const std::scoped_lock lock(the_log.mutex);
    auto& past = the_log.past_stream[StreamsOnly::current_stream()];
    const std::uint64_t step = ++steps[index];
    for (const auto wait : sequence.waits_of(sequence.ops[index])) {
      const std::uint32_t other = wait & ~program::kPreviousStep;
      const std::uint64_t of_step = wait & program::kPreviousStep ? step - 1 : step;
      num_crossings += sequence.ops[other].lane != sequence.ops[index].lane;
      EXPECT_TRUE(of_step == 0 || past.contains({of_step, other}))
          << "op " << index << " starts before " << other;
    }
    past.insert({step, index});
  };
  Lanes lanes(sequence, program.tables, run, nullptr, StreamsOnly::device());
  for (std::uint64_t step = 1; step <= kSteps; ++step) make_step(lanes, step);
  EXPECT_GT(num_crossings, 4 * kSteps);
  EXPECT_GT(StreamsOnly::num_taken(), 0) << "no lane has a stream of its own";
  EXPECT_LT(the_log.num_events, sequence.ops.size()) << "events are made only where lanes meet";
}

// What a middle rank of a pipeline issues in two steps: its ops that communicate, those that go up an axis a
// little late.
std::vector<std::uint32_t> issued_order(const program::Program& program, c10::Device device) {
  const program::Sequence& sequence = program.classes[1];
  std::mutex mutex;
  std::vector<std::uint32_t> issued;
  std::atomic<int> num_at_once = 0;
  const auto run = [&](std::uint32_t index, std::uint64_t) {
    const auto& op = sequence.ops[index];
    if (!program::is_queued(op, program.tables)) return;
    const int before = num_at_once++;
    EXPECT_TRUE(before == 0 || device.is_cpu()) << "op " << index << " is issued beside another";
    if (op.lane.direction == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::scoped_lock lock(mutex);
    issued.push_back(index);
    --num_at_once;
  };
  Lanes lanes(sequence, program.tables, run, nullptr, device);
  for (std::uint64_t step = 1; step <= 2; ++step) make_step(lanes, step);
  return issued;
}

TEST(Lanes, OnADeviceCommunicationIsIssuedInTheOrderOfTheProgramByOneLaneAtATime) {
  const auto costs = program::even_costs(4, 1, {1, 1, 1}, 0);
  const auto program = program::chain(program::one_forward_one_backward({4, 1, 6, costs}), costs);
  const auto& sequence = program.classes[1];
  std::vector<std::uint32_t> queued;
  std::set<program::Lane> lanes;
  for (int step = 0; step < 2; ++step)
    for (std::uint32_t i = 0; i < sequence.ops.size(); ++i)
      if (program::is_queued(sequence.ops[i], program.tables)) {
        queued.push_back(i);
        lanes.insert(sequence.ops[i].lane);
      }
  ASSERT_GE(lanes.size(), 4u) << "values and gradients, sent and received";
  EXPECT_EQ(issued_order(program, StreamsOnly::device()), queued);
  EXPECT_NE(issued_order(program, c10::kCPU), queued) << "on a CPU lanes are free, so the test would see it";
}

}  // namespace
}  // namespace tessera::engine
