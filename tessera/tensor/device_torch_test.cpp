#include "tessera/tensor/device.hpp"

#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <thread>

#include "tessera/tensor/streams_only.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::tensor {
namespace {

const c10::impl::DeviceGuardImplRegistrar registered(StreamsOnly::kType, new StreamsOnly());

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

TEST(Device, ACpuAndAnUndefinedTensorHaveNothingToRecord) {
  const Tensor t = zeros({1}, at::kFloat), undefined;
  EXPECT_EQ(&read_here(t), &t);
  EXPECT_FALSE(read_here(undefined).defined());
}

}  // namespace
}  // namespace tessera::tensor
