// Do lanes order an accelerator's streams as the program says? On a device that only keeps a log: c10's registry takes any
// implementation, so what a GPU would be asked for is seen without one.
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "tessera/engine/lanes.hpp"
#include "tessera/program/examples.hpp"
#include "tessera/program/generate.hpp"

namespace tessera::engine {
namespace {

constexpr auto kLogged = c10::DeviceType::PrivateUse1;

using OpOfStep = std::pair<std::uint64_t, std::uint32_t>;

// What is sure to be done when a stream gets past the last thing it was given, and past an event.
struct Log {
  std::mutex mutex;
  c10::StreamId last_stream = 0;
  std::map<c10::StreamId, std::set<OpOfStep>> past_stream;
  std::map<void*, std::set<OpOfStep>> past_event;
  std::size_t num_events = 0;
};
Log the_log;
thread_local c10::StreamId current_stream = 0;

class LoggedDevice final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kLogged; }
  c10::Device exchangeDevice(c10::Device device) const override { return device; }
  c10::Device getDevice() const override { return {kLogged, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, current_stream);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    const std::scoped_lock lock(the_log.mutex);
    return c10::Stream(c10::Stream::UNSAFE, device, ++the_log.last_stream);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return c10::Stream(c10::Stream::UNSAFE, stream.device(), std::exchange(current_stream, stream.id()));
  }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
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

const c10::impl::DeviceGuardImplRegistrar registered(kLogged, new LoggedDevice());

TEST(Lanes, AStreamWaitsForWhatItsOpWaitsForOnOtherLanes) {
  constexpr std::uint64_t kSteps = 3;
  const auto program = program::data_parallel(program::example_tables({.resident = false}), {}, true);
  const auto& sequence = program.classes.front();
  std::vector<std::uint64_t> steps(sequence.ops.size());
  std::size_t num_crossings = 0;
  const auto run = [&](std::uint32_t index) {
    const std::scoped_lock lock(the_log.mutex);
    auto& past = the_log.past_stream[current_stream];
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
  Lanes lanes(sequence, run, nullptr, c10::Device(kLogged, 0));
  for (std::uint64_t step = 0; step < kSteps; ++step) lanes.step();
  EXPECT_GT(num_crossings, 4 * kSteps);
  EXPECT_GT(the_log.last_stream, 0) << "no lane has a stream of its own";
  EXPECT_LT(the_log.num_events, sequence.ops.size()) << "events are made only where lanes meet";
}

}  // namespace
}  // namespace tessera::engine
