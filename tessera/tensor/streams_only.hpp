// A device that has nothing but streams, on which code for accelerators is tested where there is none: c10's
// registry takes any implementation, so what a GPU would be asked for is seen without one. For tests.
#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <utility>

namespace tessera::tensor {

// Streams are numbered from 1 as they are taken; a thread begins on stream 0. A test makes it known by
//   const c10::impl::DeviceGuardImplRegistrar registered(StreamsOnly::kType, new StreamsOnly());
class StreamsOnly : public c10::impl::DeviceGuardImplInterface {
 public:
  static constexpr auto kType = c10::DeviceType::PrivateUse1;
  static c10::Device device() { return {kType, 0}; }
  // The calling thread's.
  static c10::StreamId current_stream() { return current_; }
  static c10::StreamId num_taken() { return num_taken_; }

  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override { return device; }
  c10::Device getDevice() const override { return device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device device) const override { return stream(device, current_); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return stream(device, ++num_taken_);
  }
  c10::Stream exchangeStream(c10::Stream to) const override {
    return stream(to.device(), std::exchange(current_, to.id()));
  }

 private:
  static c10::Stream stream(c10::Device device, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, device, id);
  }

  inline static std::atomic<c10::StreamId> num_taken_ = 0;
  inline static thread_local c10::StreamId current_ = 0;
};

}  // namespace tessera::tensor
