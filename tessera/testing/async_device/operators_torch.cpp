// Operators on asynchronous devices: the CPU's kernels, given to a stream. Shapes of results are found at
// once by LibTorch's meta kernels, as the host finds a GPU's.
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/NativeFunctions.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <set>

#include "tessera/base/error.hpp"
#include "tessera/testing/async_device/device.hpp"
#include "tessera/testing/async_device/refusals.hpp"

namespace tessera::async_device {
namespace {

using at::Tensor;
using c10::IValue;
using Values = std::vector<IValue>;

bool is_ours(const Tensor& t) { return t.defined() && t.device().type() == kType; }

// The value with every tensor in it replaced.
template <typename Function>
IValue mapped(const IValue& value, const Function& function) {
  if (value.isTensor()) return value.toTensor().defined() ? IValue(function(value.toTensor())) : value;
  if (value.isTensorList()) {
    c10::List<Tensor> out;
    for (const Tensor& t : value.toTensorVector()) out.push_back(t.defined() ? function(t) : t);
    return out;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> out;
    for (const std::optional<Tensor>& t : value.toOptionalTensorVector())
      out.push_back(t && t->defined() ? std::optional(function(*t)) : t);
    return out;
  }
  return value;
}

Tensor shape_only(const Tensor& t) {
  return at::empty_strided(t.sizes(), t.strides(), t.options().device(c10::kMeta));
}

bool writes(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

void run_kernel(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const at::AutoDispatchBelowADInplaceOrView below;
  op.callBoxed(&stack);
}

// One call of an operator, from the stack of its arguments to that of its results.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack& stack)
      : op_(op),
        schema_(op.schema()),
        stack_(stack),
        arguments_(torch::jit::pop(stack, schema_.arguments().size())) {
    name_ = schema_.name().substr(std::string_view("aten::").size());
    if (!schema_.overload_name().empty()) name_ += "." + schema_.overload_name();
    for (std::size_t i = 0; i < arguments_.size(); ++i)
      mapped(arguments_[i], [&](const Tensor& t) {
        if (is_ours(t) && !device_) device_ = t.device();
        return t;
      });
    if (!device_) device_ = c10::Device(kType, c10::impl::VirtualGuardImpl(kType).getDevice().index());
  }

  void run() {
    const c10::DeviceGuard on_device(*device_);
    refuse(name_, arguments_);
    resize_outputs();
    for (std::size_t i = 0; i < arguments_.size(); ++i)
      mapped(arguments_[i], [&](const Tensor& t) {
        if (is_ours(t)) touched_.push_back(access_of(t, writes(schema_.arguments()[i])));
        return t;
      });
    if (makes_nothing())
      give_in_place();
    else if (const auto results = shaped_results())
      give(*results);
    else
      run_at_once();
  }

 private:
  bool makes_nothing() const {
    return std::ranges::all_of(schema_.returns(),
                               [](const auto& result) { return result.alias_info() != nullptr; });
  }

  Values arguments_as(Tensor (*function)(const Tensor&)) const {
    Values out;
    for (const IValue& argument : arguments_) out.push_back(mapped(argument, function));
    return out;
  }

  // The stack after the meta kernel; nothing where there is none.
  std::optional<Values> meta_run() const {
    try {
      torch::jit::Stack stack = arguments_as(shape_only);
      const at::AutoDispatchBelowADInplaceOrView below;
      op_.callBoxed(&stack);
      return stack;
    } catch (const c10::Error&) {
      return {};
    }
  }

  // An empty `out` takes the size of the result.
  void resize_outputs() {
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      const bool is_empty_output =
          writes(schema_.arguments()[i]) && arguments_[i].isTensor() && arguments_[i].toTensor().numel() == 0;
      if (!is_empty_output) continue;
      const Tensor& out = arguments_[i].toTensor();
      const auto results = meta_run();
      if (results && !results->empty() && results->front().isTensor())
        out.resize_(results->front().toTensor().sizes());
      else
        out.resize_(broadcast_size(i));
    }
  }

  // Of all arguments but the one: what operators by element without a meta kernel return.
  std::vector<std::int64_t> broadcast_size(std::size_t but) const {
    static const std::set<std::string> by_element = {"abs.out", "logical_not.out", "logical_and.out",
                                                     "logical_or.out", "logical_xor.out"};
    TESSERA_CHECK(by_element.contains(name_), "the shape of what ", name_, " returns is not known");
    std::vector<std::int64_t> size;
    for (std::size_t i = 0; i < arguments_.size(); ++i)
      if (i != but && arguments_[i].isTensor()) size = at::infer_size(size, arguments_[i].toTensor().sizes());
    return size;
  }

  std::optional<std::vector<Tensor>> shaped_results() const {
    for (const auto& result : schema_.returns())
      if (!result.type()->isSubtypeOf(*c10::TensorType::get())) return {};
    if (const auto results = meta_run()) {
      std::vector<Tensor> out;
      for (const IValue& result : *results) {
        const Tensor& t = result.toTensor();
        out.push_back(at::empty_strided(t.sizes(), t.strides(), t.options().device(*device_)));
      }
      return out;
    }
    return known_shape();
  }

  // Of operators whose meta kernels are Python's alone.
  std::optional<std::vector<Tensor>> known_shape() const {
    const auto tensor = [&](std::size_t i) { return arguments_[i].toTensor(); };
    if (name_ == "index_select") {
      auto sizes = tensor(0).sizes().vec();
      sizes[static_cast<std::size_t>(arguments_[1].toInt())] = tensor(2).numel();
      return std::vector{at::empty(sizes, tensor(0).options())};
    }
    if (name_ == "where.self") {
      const auto sizes =
          at::infer_size(tensor(0).sizes(), at::infer_size(tensor(1).sizes(), tensor(2).sizes()));
      return std::vector{at::empty(sizes, tensor(tensor(1).dim() ? 1 : 2).options().device(*device_))};
    }
    if (name_ == "dot") return std::vector{at::empty({}, tensor(0).options())};
    return {};
  }

  void give_in_place() {
    witness().issue(current_stream(*device_), name_, touched_, [op = op_, arguments = arguments_as(on_cpu)] {
      torch::jit::Stack stack = arguments;
      run_kernel(op, stack);
    });
    for (const auto& result : schema_.returns())
      for (std::size_t i = 0; i < arguments_.size(); ++i)
        if (const auto* alias = schema_.arguments()[i].alias_info();
            alias && alias->beforeSets() == result.alias_info()->beforeSets())
          stack_.push_back(arguments_[i]);
  }

  void give(const std::vector<Tensor>& results) {
    std::vector<Tensor> into;
    for (const Tensor& result : results) {
      into.push_back(on_cpu(result));
      touched_.push_back(access_of(result, true));
    }
    witness().issue(current_stream(*device_), name_, touched_,
                    [op = op_, arguments = arguments_as(on_cpu), into] {
                      torch::jit::Stack stack = arguments;
                      run_kernel(op, stack);
                      for (std::size_t i = 0; i < into.size(); ++i) into[i].copy_(stack[i].toTensor());
                    });
    for (const Tensor& result : results) stack_.push_back(result);
  }

  // What it returns depends on values: the host waits.
  void run_at_once() {
    auto stack = std::make_shared<torch::jit::Stack>(arguments_as(on_cpu));
    Stream& stream = current_stream(*device_);
    witness().host_wait(
        witness().issue(stream, name_, touched_, [op = op_, stack] { run_kernel(op, *stack); }), name_);
    for (const IValue& value : *stack)
      stack_.push_back(mapped(value, [&](const Tensor& t) {
        const Tensor out = at::empty_strided(t.sizes(), t.strides(), t.options().device(*device_));
        const Access whole = access_of(out, true);
        witness().issue(stream, name_, std::span(&whole, 1), [to = on_cpu(out), t] { to.copy_(t); });
        return out;
      }));
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  torch::jit::Stack& stack_;
  Values arguments_;
  std::string name_;
  std::optional<c10::Device> device_;
  std::vector<Access> touched_;
};

void any_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) { Call(op, *stack).run(); }

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
  if (is_ours(from)) touched.push_back(access_of(from, false));
  if (is_ours(to)) touched.push_back(access_of(to, true));
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

// By plain products, as a GPU computes it in fp64.
std::int64_t attention_choice(const Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&,
                              double, bool, std::optional<double>, bool) {
  return static_cast<std::int64_t>(at::SDPBackend::math);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&any_operator>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  // What LibTorch would take apart on a device that it does not know, and a GPU does in one kernel.
  for (const char* op : {"native_layer_norm", "_grouped_mm"})
    library.impl(op, torch::CppFunction::makeFromBoxedFunction<&any_operator>());
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("_local_scalar_dense", item);
  library.impl("record_stream", record_stream);
  library.impl("_fused_sdp_choice", attention_choice);
  library.impl("resize_", resize);
  library.impl("as_strided", as_strided);
  library.impl("view", [](const Tensor& t, c10::IntArrayRef size) { return at::native::view(t, size); });
  library.impl("_reshape_alias", [](const Tensor& t, c10::IntArrayRef size, c10::IntArrayRef stride) {
    return at::native::_reshape_alias(t, size, stride);
  });
}

}  // namespace
}  // namespace tessera::async_device
