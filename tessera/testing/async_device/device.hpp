// The asynchronous device as LibTorch sees it: a backend in the place of a GPU, whose memory is the CPU's,
// whose kernels are the CPU's, done by streams that are threads. One per rank, in one process. For tests and
// developers: what makes code for GPUs wrong, such as streams that nothing orders and memory that is reused
// too early, is found without one.
#pragma once

#include <c10/core/Device.h>

#include <vector>

#include "tessera/testing/async_device/witness.hpp"

namespace at {
class Tensor;
}

namespace tessera::async_device {

inline constexpr auto kType = c10::DeviceType::PrivateUse1;
inline constexpr int kMostDevices = 16;

// While it lives there are such devices. One at a time; all tensors of a device are gone before it is. The
// first of a process must be made before the first backward, when LibTorch starts a thread for each device.
class Devices {
 public:
  explicit Devices(const Pace& pace, const Omission& omission = {});
  ~Devices();
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;
  Witness& witness() { return witness_; }

 private:
  Witness witness_;
};

// Of the devices that there are now.
Witness& witness();

// The calling thread's stream of the device.
Stream& current_stream(c10::Device device);

// Whether it is a tensor of such a device; its bytes; the same memory as a tensor of the CPU, for tasks.
bool is_ours(const at::Tensor& t);
Access access_of(const at::Tensor& t, bool writes);
at::Tensor on_cpu(const at::Tensor& t);

}  // namespace tessera::async_device
