#include "tessera/collective/linear_map.hpp"

#include <torch/csrc/autograd/custom_function.h>

namespace tessera::collective {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Maps final : torch::CustomClassHolder {
  Map forward, backward;
};

struct LinearMap : torch::autograd::Function<LinearMap> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, c10::intrusive_ptr<Maps> maps) {
    context->saved_data["maps"] = c10::IValue::make_capsule(maps);
    return maps->forward(x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto maps = c10::static_intrusive_pointer_cast<Maps>(context->saved_data["maps"].toCapsule());
    return {maps->backward(gradients[0]), at::Tensor()};
  }
};

}  // namespace

at::Tensor apply_linear(const at::Tensor& x, Map forward, Map backward) {
  auto maps = c10::make_intrusive<Maps>();
  maps->forward = std::move(forward);
  maps->backward = std::move(backward);
  return LinearMap::apply(x, std::move(maps));
}

}  // namespace tessera::collective
