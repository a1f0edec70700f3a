#include "tessera/tensor/device.hpp"

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/Event.h>

namespace tessera::tensor {

namespace {
c10::impl::VirtualGuardImpl door(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()); }
}  // namespace

int num_devices(c10::DeviceType kind) {
  return c10::impl::hasDeviceGuardImpl(kind) ? c10::impl::VirtualGuardImpl(kind).deviceCount() : 0;
}

DeviceMemory device_memory(c10::Device device) {
  const auto [free, total] = at::getDeviceAllocator(device.type())->getMemoryInfo(device.index());
  return {static_cast<std::int64_t>(free), static_cast<std::int64_t>(total)};
}

void use_device(c10::Device device) {
  if (!device.is_cpu()) door(device).setDevice(device);
}

void use_own_stream(c10::Device device) {
  if (device.is_cpu()) return;
  use_device(device);
  // Ahead of compute: what a communication lane is given is small, and others wait for it.
  door(device).exchangeStream(door(device).getStreamFromGlobalPool(device, /*isHighPriority=*/true));
}

const at::Tensor& read_here(const at::Tensor& t) {
  if (t.defined() && !t.is_cpu()) t.record_stream(door(t.device()).getStream(t.device()));
  return t;
}

at::Tensor on_device(const at::Tensor& host, c10::Device device) {
  return device.is_cpu() ? host : host.pin_memory().to(device, host.scalar_type(), /*non_blocking=*/true);
}

at::Tensor pinned(c10::IntArrayRef shape, c10::ScalarType dtype) {
  return at::empty(shape, at::TensorOptions(dtype).device(c10::kCPU).pinned_memory(true));
}

at::Tensor on_host(const at::Tensor& t) {
  if (t.is_cpu()) return t;
  const at::Tensor out = pinned(t.sizes(), t.scalar_type());
  out.copy_(t, /*non_blocking=*/true);
  door(t.device()).synchronizeStream(door(t.device()).getStream(t.device()));
  return out;
}

Event::Event(c10::Device device) : device_(device), event_(std::make_unique<c10::Event>(device.type())) {}
Event::~Event() = default;

void Event::record() {
  const std::scoped_lock lock(mutex_);
  event_->record(door(device_).getStream(device_));
}

void Event::wait() {
  const std::scoped_lock lock(mutex_);
  event_->block(door(device_).getStream(device_));
}

void Event::synchronize() {
  const std::scoped_lock lock(mutex_);
  event_->synchronize();
}

SideStream::SideStream(c10::Device device)
    : stream_(door(device).getStreamFromGlobalPool(device, /*isHighPriority=*/true)),
      begun_(device),
      ended_(device) {}

void SideStream::issue(const std::function<void()>& work) {
  begun_.record();
  struct Elsewhere {
    explicit Elsewhere(c10::Stream to) : before(door(to.device()).exchangeStream(to)) {}
    ~Elsewhere() { door(before.device()).exchangeStream(before); }
    c10::Stream before;
  };
  const Elsewhere elsewhere(stream_);
  begun_.wait();
  work();
  ended_.record();
}

}  // namespace tessera::tensor
