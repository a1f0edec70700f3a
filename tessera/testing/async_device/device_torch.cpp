#include "tessera/testing/async_device/device.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/record_function.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <map>
#include <mutex>

#include "tessera/base/error.hpp"

namespace tessera::async_device {
namespace {

std::atomic<Witness*> present = nullptr;
std::atomic<std::uint64_t> num_made = 0;
thread_local c10::DeviceIndex device_of_thread = 0;

// The streams that a thread has chosen, by device, of the devices that there were then.
struct Chosen {
  std::uint64_t made = 0;
  std::map<c10::DeviceIndex, c10::StreamId> ids;
};
std::map<c10::DeviceIndex, c10::StreamId>& chosen_streams() {
  thread_local Chosen chosen;
  if (chosen.made != num_made) chosen = {num_made, {}};
  return chosen.ids;
}

c10::Stream named(const Stream& stream) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, static_cast<c10::DeviceIndex>(stream.device())),
                     stream.id());
}
Stream& found(const c10::Stream& stream) { return witness().stream(stream.device_index(), stream.id()); }

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kType; }
  c10::Device getDevice() const override { return {kType, device_of_thread}; }
  void setDevice(c10::Device device) const override { device_of_thread = device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { device_of_thread = device.index(); }
  c10::Device exchangeDevice(c10::Device device) const override {
    return {kType, std::exchange(device_of_thread, device.index())};
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kMostDevices; }

  c10::Stream getStream(c10::Device device) const override {
    const auto& chosen = chosen_streams();
    const auto own = chosen.find(device.index());
    return c10::Stream(c10::Stream::UNSAFE, device, own == chosen.end() ? 0 : own->second);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return named(witness().new_stream(device.index()));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    chosen_streams()[stream.device_index()] = stream.id();
    return before;
  }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    if (!*event) *event = new Point();
    *static_cast<Point*>(*event) = witness().now(found(stream));
  }
  void block(void* event, const c10::Stream& stream) const override {
    Stream& waiting = found(stream);
    if (event && !witness().omits(Omission::Kind::event_wait, waiting))
      witness().order(waiting, *static_cast<Point*>(event));
  }
  bool queryEvent(void* event) const override {
    return !event || witness().has_passed(*static_cast<Point*>(event));
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<Point*>(event);
  }
  bool queryStream(const c10::Stream& stream) const override {
    return witness().has_passed(witness().now(found(stream)));
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    witness().host_wait(witness().now(found(stream)), "a stream");
  }
  void synchronizeEvent(void* event) const override {
    if (event) witness().host_wait(*static_cast<Point*>(event), "an event");
  }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    if (data.get()) witness().record(static_cast<const std::byte*>(data.get()), found(stream));
  }
};

// Of the host, and known to the device.
class PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    auto* memory = new std::byte[bytes];
    if (Witness* const now = present) now->watch(memory, bytes);
    const std::scoped_lock lock(mutex_);
    blocks_[memory] = bytes;
    return {memory, memory, &give_back, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  static bool holds(const void* address) {
    const std::scoped_lock lock(mutex_);
    const auto* at = static_cast<const std::byte*>(address);
    auto next = blocks_.upper_bound(const_cast<std::byte*>(at));
    return next != blocks_.begin() && at < std::prev(next)->first + std::prev(next)->second;
  }

 private:
  static void give_back(void* data) {
    auto* memory = static_cast<std::byte*>(data);
    if (Witness* const now = present) now->forget(memory);
    const std::scoped_lock lock(mutex_);
    blocks_.erase(memory);
    delete[] memory;
  }

  static inline std::mutex mutex_;
  static inline std::map<std::byte*, std::size_t> blocks_;
};

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool isPinnedPtr(const void* data) const override { return PinnedMemory::holds(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    static PinnedMemory memory;
    return &memory;
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return present != nullptr; }
  c10::DeviceIndex deviceCount() const override { return kMostDevices; }
  c10::DeviceIndex getCurrentDevice() const override { return device_of_thread; }
  void setCurrentDevice(c10::DeviceIndex device) const override { device_of_thread = device; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return std::exchange(device_of_thread, device);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchangeDevice(device);
  }
};

void give_back(void* memory) {
  if (memory) witness().release(static_cast<std::byte*>(memory));
}

class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device device(kType, device_of_thread);
    void* memory = bytes == 0 ? nullptr : witness().allocate(bytes, current_stream(device));
    return {memory, memory, &give_back, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

// Ranges that the host names (tensor/named_range.hpp) label what the stream is given meanwhile.
std::unique_ptr<at::ObserverContext> begin_range(const at::RecordFunction& range) {
  if (Witness* const now = present) now->label(current_stream({kType, device_of_thread}), range.name());
  return nullptr;
}
void end_range(const at::RecordFunction&, at::ObserverContext*) {
  if (Witness* const now = present) now->label(current_stream({kType, device_of_thread}), "");
}

// Not before it is asked for: what runs on CPUs alone has no second kind of device.
void make_known() {
  static Memory memory;
  static Guard guard;
  static Hooks hooks;
  static const c10::impl::DeviceGuardImplRegistrar guard_is_known(kType, &guard);
  static const bool are_known = [] {
    c10::register_privateuse1_backend("async");
    at::RegisterPrivateUse1HooksInterface(&hooks);
    c10::SetAllocator(kType, &memory);
    at::addGlobalCallback(
        at::RecordFunctionCallback(begin_range, end_range).scopes({at::RecordScope::USER_SCOPE}));
    return true;
  }();
  TESSERA_CHECK(are_known);
}

void prepare_stream() {
  at::set_num_threads(1);
  at::GradMode::set_enabled(false);
}

}  // namespace

Devices::Devices(const Pace& pace, const Omission& omission) : witness_(pace, prepare_stream, omission) {
  make_known();
  TESSERA_CHECK(!present, "there are asynchronous devices already");
  ++num_made;
  present = &witness_;
}

Devices::~Devices() { present = nullptr; }

Witness& witness() {
  Witness* const now = present;
  TESSERA_CHECK(now, "there is no asynchronous device");
  return *now;
}

Stream& current_stream(c10::Device device) { return found(Guard().getStream(device)); }

bool is_ours(const at::Tensor& t) { return t.defined() && t.device().type() == kType; }

Access access_of(const at::Tensor& t, bool writes) {
  if (t.numel() == 0) return {};
  std::int64_t last = 0;
  for (std::int64_t dim = 0; dim < t.dim(); ++dim) last += (t.size(dim) - 1) * t.stride(dim);
  return {static_cast<const std::byte*>(t.data_ptr()), static_cast<std::size_t>(last + 1) * t.element_size(),
          writes};
}

at::Tensor on_cpu(const at::Tensor& t) {
  if (!is_ours(t)) return t;
  if (t.numel() == 0) return at::empty_strided(t.sizes(), t.strides(), t.options().device(c10::kCPU));
  return at::from_blob(t.data_ptr(), t.sizes(), t.strides(), at::TensorOptions(t.scalar_type()));
}

}  // namespace tessera::async_device
