#include "tessera/tensor/device.hpp"

#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <thread>

#include "tessera/tensor/streams_only.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::tensor {
namespace {

// Its events order nothing.
class WithEvents final : public StreamsOnly {
 public:
  void record(void** event, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {
    *event = &event_;
  }
  void block(void*, const c10::Stream&) const override {}

 private:
  inline static int event_ = 0;
};

const c10::impl::DeviceGuardImplRegistrar registered(StreamsOnly::kType, new WithEvents());

using Recorded = std::vector<std::pair<void*, c10::StreamId>>;
Recorded recorded;

void record(Tensor& t, c10::Stream stream) { recorded.push_back({t.data_ptr(), stream.id()}); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) { library.impl("record_stream", record); }

TEST(Device, MemoryThatIsReadIsHeldForTheReadersStream) {
  float memory = 0;
  const auto device = StreamsOnly::device();
  const Tensor t = at::for_blob(&memory, {1})
                       .options(at::TensorOptions(at::kFloat).device(device))
                       .target_device(device)
                       .make_tensor();
  std::thread([&] {
    use_own_stream(device);
    EXPECT_EQ(&read_here(t), &t);
  }).join();
  EXPECT_EQ(recorded, (Recorded{{&memory, StreamsOnly::num_taken()}}));
  EXPECT_GT(StreamsOnly::num_taken(), 0);
}

TEST(Device, ASideStreamIsTakenOnceAndLeftAfterEachUse) {
  SideStream side(StreamsOnly::device());
  const c10::StreamId stream = StreamsOnly::num_taken();
  for (int i = 0; i < 3; ++i) {
    side.issue([&] { EXPECT_EQ(StreamsOnly::current_stream(), stream); });
    EXPECT_EQ(StreamsOnly::current_stream(), 0);
  }
  EXPECT_EQ(StreamsOnly::num_taken(), stream);
}

TEST(Device, ACpuAndAnUndefinedTensorHaveNothingToRecord) {
  const Tensor t = zeros({1}, at::kFloat), undefined;
  EXPECT_EQ(&read_here(t), &t);
  EXPECT_FALSE(read_here(undefined).defined());
}

}  // namespace
}  // namespace tessera::tensor
