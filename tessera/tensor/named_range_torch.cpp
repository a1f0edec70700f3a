#include <ATen/record_function.h>

#include "tessera/tensor/named_range.hpp"

namespace tessera::tensor {

NamedRange::NamedRange(const std::function<std::string()>& name) {
  auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
  if (!callbacks) return;
  range_ = std::make_unique<at::RecordFunction>(std::move(*callbacks));
  name_ = name();
  range_->before(std::string_view(name_));
}

NamedRange::~NamedRange() = default;

}  // namespace tessera::tensor
