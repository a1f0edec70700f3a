// What LibTorch is told of operators on asynchronous devices.
#include <ATen/EmptyTensor.h>
#include <ATen/NativeFunctions.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/addmm.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "tessera/testing/async_device/boxed_call.hpp"
#include "tessera/testing/async_device/device.hpp"

namespace tessera::async_device {
namespace {

using at::Tensor;

c10::Device device_or_current(std::optional<c10::Device> device) {
  if (device && device->has_index()) return *device;
  return c10::impl::VirtualGuardImpl(kType).getDevice();
}

Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<c10::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard on_device(device_or_current(device));
  return at::detail::empty_generic(size, c10::GetAllocator(kType),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout>, std::optional<c10::Device> device, std::optional<bool>) {
  const c10::DeviceGuard on_device(device_or_current(device));
  return at::detail::empty_strided_generic(size, stride, c10::GetAllocator(kType),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

// From pageable memory the host waits for the stream, then hands over a copy; to such memory it waits for the
// bytes. Pinned memory is waited for only if the caller wants it.
Tensor copy_from(const Tensor& from, const Tensor& to, bool non_blocking) {
  const c10::Device device = is_ours(to) ? to.device() : from.device();
  const c10::DeviceGuard on_device(device);
  Stream& stream = current_stream(device);
  std::vector<Access> touched;
  if (is_ours(from) || from.is_pinned()) touched.push_back(access_of(from, false));
  if (is_ours(to) || to.is_pinned()) touched.push_back(access_of(to, true));
  const bool within = is_ours(from) && is_ours(to), is_down = is_ours(from) && !within;
  const char* what = within ? "copy" : is_down ? "copy to the host" : "copy from the host";
  const bool is_pageable = !within && to.numel() > 0 && !(is_down ? to : from).is_pinned();
  if (is_pageable) witness().count_pageable_copy(device.index());
  if (is_pageable && !is_down) witness().host_wait(witness().now(stream), what);
  const Tensor source = is_pageable && !is_down ? from.clone() : on_cpu(from);
  const Point done = witness().issue(stream, what, touched, [source, b = on_cpu(to)] { b.copy_(source); });
  if (!within && (is_pageable ? is_down : !non_blocking)) witness().host_wait(done, what);
  return to;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar item(const Tensor& t) {
  const c10::DeviceGuard on_device(t.device());
  const Access all = access_of(t, false);
  witness().host_wait(witness().issue(current_stream(t.device()), "item", std::span(&all, 1), [] {}), "item");
  return at::_local_scalar_dense(on_cpu(t));
}

void record_stream(Tensor& t, c10::Stream stream) {
  if (t.numel() > 0)
    witness().record(static_cast<const std::byte*>(t.data_ptr()),
                     witness().stream(stream.device_index(), stream.id()));
}

const Tensor& resize(const Tensor& t, c10::SymIntArrayRef size, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard on_device(t.device());
  return at::native::resize_(t, C10_AS_INTARRAYREF_SLOW(size), format);
}

Tensor as_strided(const Tensor& t, c10::IntArrayRef size, c10::IntArrayRef stride,
                  std::optional<std::int64_t> offset) {
  return at::native::as_strided_tensorimpl(t, size, stride, offset);
}

// 16 bits multiplied and added in 32: CPUs have no kernel for it.
Tensor& addmm_wide(const Tensor& self, const Tensor& a, const Tensor& b, at::ScalarType dtype,
                   const at::Scalar& beta, const at::Scalar& alpha, Tensor& out) {
  const c10::DeviceGuard on_device(out.device());
  const Access touched[] = {access_of(self, false), access_of(a, false), access_of(b, false),
                            access_of(out, true)};
  witness().issue(current_stream(out.device()), "addmm.dtype_out", touched,
                  [self = on_cpu(self), a = on_cpu(a), b = on_cpu(b), to = on_cpu(out), dtype, beta,
                   alpha]() mutable { at::addmm_out(to, self, a.to(dtype), b.to(dtype), beta, alpha); });
  return out;
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&give_to_stream>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  // What LibTorch would take apart on a device that it does not know, and a GPU does in one kernel.
  for (const char* op : {"native_layer_norm", "_grouped_mm"})
    library.impl(op, torch::CppFunction::makeFromBoxedFunction<&give_to_stream>());
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("_local_scalar_dense", item);
  library.impl("record_stream", record_stream);
  library.impl("addmm.dtype_out", addmm_wide);
  library.impl("resize_", resize);
  library.impl("as_strided", as_strided);
  library.impl("view", [](const Tensor& t, c10::IntArrayRef size) { return at::native::view(t, size); });
  library.impl("_reshape_alias", [](const Tensor& t, c10::IntArrayRef size, c10::IntArrayRef stride) {
    return at::native::_reshape_alias(t, size, stride);
  });
}

}  // namespace
}  // namespace tessera::async_device
