#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>

#include <map>
#include <mutex>

#include "tessera/base/error.hpp"
#include "tessera/tensor/slab.hpp"

namespace tessera::tensor {

// Outlives the slab while tensors lie in it.
struct Slab::Held {
  at::Tensor bytes;
  std::mutex mutex;
  std::map<std::int64_t, std::int64_t> ends;  // of the tensors that lie there, by where they begin

  void take(std::int64_t begin, std::int64_t end) {
    const std::scoped_lock lock(mutex);
    const auto next = ends.lower_bound(begin);
    const bool is_free = (next == ends.end() || end <= next->first) &&
                         (next == ends.begin() || std::prev(next)->second <= begin);
    TESSERA_CHECK(is_free && end <= bytes.numel(), "bytes ", begin, " to ", end, " of ", bytes.numel(),
                  " are still held");
    ends.emplace(begin, end);
  }
  void give_back(std::int64_t begin) {
    const std::scoped_lock lock(mutex);
    ends.erase(begin);
  }
};

Slab::Slab(std::int64_t bytes, c10::Device device) : held_(std::make_shared<Held>()) {
  held_->bytes = at::empty({bytes}, at::TensorOptions(at::kByte).device(device));
}
Slab::~Slab() = default;
Slab::Slab(Slab&&) noexcept = default;
Slab& Slab::operator=(Slab&&) noexcept = default;

at::Tensor Slab::at(std::int64_t offset, c10::IntArrayRef shape, c10::ScalarType dtype) const {
  const auto bytes = c10::multiply_integers(shape) * static_cast<std::int64_t>(c10::elementSize(dtype));
  const c10::Device device = held_->bytes.device();
  if (bytes == 0) return at::empty(shape, at::TensorOptions(dtype).device(device));
  held_->take(offset, offset + bytes);
  const c10::DeviceGuard on_device(device);
  return at::from_blob(
      static_cast<char*>(held_->bytes.data_ptr()) + offset, shape,
      [held = held_, offset](void*) { held->give_back(offset); }, at::TensorOptions(dtype).device(device),
      device);
}

}  // namespace tessera::tensor
