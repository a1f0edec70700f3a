#include "tessera/tensor/flop_count.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <string_view>

namespace tessera::tensor {

struct FlopCount::State {
  std::int64_t products = 0, attention = 0;
};

namespace {

thread_local FlopCount::State* counting = nullptr;

std::int64_t product(const at::Tensor& a, const at::Tensor& b) { return 2 * a.numel() * b.size(-1); }

void count(FlopCount::State& state, const at::RecordFunction& function) {
  const std::string_view name = function.name();
  const auto inputs = function.inputs();
  const auto tensor = [&](std::size_t i) { return inputs[i].toTensor(); };
  if (name == "aten::mm" || name == "aten::bmm") {
    state.products += product(tensor(0), tensor(1));
  } else if (name == "aten::addmm" || name == "aten::addmm_") {
    state.products += product(tensor(1), tensor(2));
  } else if (name == "aten::_scaled_dot_product_flash_attention_for_cpu") {
    state.attention += 4 * tensor(0).numel() * tensor(1).size(2);
  } else if (name == "aten::_scaled_dot_product_flash_attention_for_cpu_backward") {
    state.attention += 10 * tensor(1).numel() * tensor(2).size(2);
  }
}

std::unique_ptr<at::ObserverContext> on_call(const at::RecordFunction& function) {
  if (counting) count(*counting, function);
  return nullptr;
}

}  // namespace

FlopCount::FlopCount() : state_(std::make_unique<State>()) {
  counting = state_.get();
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(on_call).needsInputs(true));
}

FlopCount::~FlopCount() {
  at::removeCallback(handle_);
  counting = nullptr;
}

std::int64_t FlopCount::products() const { return state_->products; }
std::int64_t FlopCount::attention() const { return state_->attention; }

}  // namespace tessera::tensor
