// The device that a rank computes on, its streams and its events. A CPU is done when a call returns: there
// streams and events are nothing. An accelerator works through streams; an event orders one stream after
// another without stopping the host.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/core/Stream.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

namespace at {
class Tensor;
}
namespace c10 {
struct Event;
}

namespace tessera::tensor {

// How many devices of the kind this process can use; 0 where the build or the machine has none.
int num_devices(c10::DeviceType kind);

struct DeviceMemory {
  std::int64_t free_bytes = 0, total_bytes = 0;
};
// Of an accelerator.
DeviceMemory device_memory(c10::Device device);

// Makes it the calling thread's device.
void use_device(c10::Device device);
// From now on the calling thread issues on a stream of its own.
void use_own_stream(c10::Device device);

// Note [Memory that two streams use]
// An accelerator's memory goes back to the stream it was taken on when the last tensor over it is dropped,
// although kernels that were merely issued on another stream still read it. So whoever reads a tensor that
// another lane may have made says it here: then that memory is given to nobody before the calling thread's
// stream is past what it has been given by the time the tensor is dropped. Returns the tensor; on a CPU, and
// of an undefined one, nothing is to be said.
const at::Tensor& read_here(const at::Tensor& t);

// Memory of the host that an accelerator copies to and from while the host goes on.
at::Tensor pinned(c10::IntArrayRef shape, c10::ScalarType dtype);
// The host's tensor on the device. To an accelerator it is copied from pinned memory, after what the calling
// thread's stream has been given, while the host goes on.
at::Tensor on_device(const at::Tensor& host, c10::Device device);
// A tensor of any device as the host's. An accelerator's host waits for the calling thread's stream.
at::Tensor on_host(const at::Tensor& t);

// A point in a stream of an accelerator. Any thread may call either function.
class Event {
 public:
  explicit Event(c10::Device device);
  ~Event();
  // The point after all that the calling thread's stream has been given so far.
  void record();
  // What the calling thread's stream is given from now on starts after the last recorded point.
  void wait();
  // The host waits for the last recorded point.
  void synchronize();

 private:
  c10::Device device_;
  std::mutex mutex_;  // c10's events want one caller at a time
  std::unique_ptr<c10::Event> event_;
};

// A stream next to the calling thread's, of an accelerator: one of the device's pool, taken once.
class SideStream {
 public:
  explicit SideStream(c10::Device device);
  // Calls `work`, which issues there: it begins after what the calling thread's stream has been given so far,
  // and runs concurrently with what that one is given next.
  void issue(const std::function<void()>& work);
  // What the calling thread's stream is given from now on starts after what was issued last.
  void join() { ended_.wait(); }

 private:
  c10::Stream stream_;
  Event begun_, ended_;
};

}  // namespace tessera::tensor
