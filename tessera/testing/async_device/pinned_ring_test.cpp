#include "tessera/tensor/pinned_ring.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tessera/testing/async_device/device.hpp"

namespace tessera::async_device {
namespace {

using tensor::PinnedRing;

// Two chunks and a half, one element, and nothing.
TEST(PinnedRing, BringsEveryByteThereAndBackWithoutAPageableCopy) {
  Devices devices({.seed = 3});
  const c10::Device device(kType, 0);
  PinnedRing ring;
  for (const std::int64_t elements : {PinnedRing::kChunk / 8 * 5 / 2, std::size_t{1}, std::size_t{0}}) {
    std::vector<double> values(static_cast<std::size_t>(elements)), back(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) + 0.5;
    const tensor::Tensor there = tensor::empty({elements}, at::kDouble, device);
    ring.write(there, [&](std::span<std::byte> bytes, std::size_t offset) {
      std::memcpy(bytes.data(), reinterpret_cast<const char*>(values.data()) + offset, bytes.size());
    });
    ring.read(there, [&](std::span<const std::byte> bytes, std::size_t offset) {
      std::memcpy(reinterpret_cast<char*>(back.data()) + offset, bytes.data(), bytes.size());
    });
    EXPECT_EQ(back, values) << elements;
  }
  EXPECT_EQ(witness().counts(0).pageable_copies, 0);
  EXPECT_TRUE(witness().problems().empty());
}

}  // namespace
}  // namespace tessera::async_device
