// One range of a device's memory in which the caller says where tensors lie.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <memory>

namespace at {
class Tensor;
}

namespace tessera::tensor {

class Slab {
 public:
  Slab(std::int64_t bytes, c10::Device device);
  ~Slab();
  Slab(Slab&&) noexcept;
  Slab& operator=(Slab&&) noexcept;

  // A tensor over the bytes from `offset` on, with whatever they hold. Throws Bug while a tensor that was
  // made earlier still lies there: what streams may be about to do with it is the caller's to order.
  at::Tensor at(std::int64_t offset, c10::IntArrayRef shape, c10::ScalarType dtype) const;

 private:
  struct Held;
  std::shared_ptr<Held> held_;
};

}  // namespace tessera::tensor
