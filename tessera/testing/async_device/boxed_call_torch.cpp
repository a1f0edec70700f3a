#include "tessera/testing/async_device/boxed_call.hpp"

#include <ATen/ExpandUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>

#include <set>

#include "tessera/base/error.hpp"
#include "tessera/tensor/tensor.hpp"
#include "tessera/testing/async_device/device.hpp"
#include "tessera/testing/async_device/refusals.hpp"

namespace tessera::async_device {
namespace {

using at::Tensor;
using c10::IValue;
using Values = std::vector<IValue>;

constexpr std::string_view kLibTorch = "aten::";  // left out of names; those of others stay whole

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

// CUDA keeps the statistics of a layer norm in fp32 whatever the weight is in, a CPU in the weight's dtype.
void widen_weights(const std::string& name, torch::jit::Stack& stack) {
  const std::size_t weight = name == "native_layer_norm" ? 2 : name == "native_layer_norm_backward" ? 5 : 0;
  if (weight == 0) return;
  for (std::size_t i = weight; i < weight + 2; ++i)
    if (stack[i].isTensor())
      stack[i] = stack[i].toTensor().to(tensor::wide(stack[i].toTensor().scalar_type()));
}

// One call of an operator, from the stack of its arguments to that of its results.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack& stack)
      : op_(op),
        schema_(op.schema()),
        stack_(stack),
        arguments_(torch::jit::pop(stack, schema_.arguments().size())) {
    name_ = schema_.name();
    if (name_.starts_with(kLibTorch)) name_.erase(0, kLibTorch.size());
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
    if (name_ == "flip") return std::vector{at::empty_like(tensor(0))};
    if (name_ == "dot") return std::vector{at::empty({}, tensor(0).options())};
    if (name_ == "native_layer_norm") {
      auto rows = tensor(0).sizes().vec();
      std::fill(rows.end() - std::ssize(arguments_[1].toIntVector()), rows.end(), 1);
      const auto statistics = tensor(0).options().dtype(tensor::wide(tensor(0).scalar_type()));
      return std::vector{at::empty_like(tensor(0)), at::empty(rows, statistics), at::empty(rows, statistics)};
    }
    if (name_ == "native_layer_norm_backward") {
      const auto wanted = arguments_[7].toBoolList();
      std::vector<Tensor> out;
      for (const std::size_t like : {1, 5, 6})  // of the input, the weight and the bias
        out.push_back(wanted[out.size()] ? at::empty_like(tensor(like)) : Tensor());
      return out;
    }
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
      into.push_back(result.defined() ? on_cpu(result) : result);
      if (result.defined()) touched_.push_back(access_of(result, true));
    }
    witness().issue(current_stream(*device_), name_, touched_,
                    [op = op_, name = name_, arguments = arguments_as(on_cpu), into] {
                      torch::jit::Stack stack = arguments;
                      widen_weights(name, stack);
                      run_kernel(op, stack);
                      for (std::size_t i = 0; i < into.size(); ++i)
                        if (into[i].defined()) into[i].copy_(stack[i].toTensor());
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

}  // namespace

void give_to_stream(const c10::OperatorHandle& op, torch::jit::Stack* stack) { Call(op, *stack).run(); }

}  // namespace tessera::async_device
