// What kernels for CUDA refuse, or do not have, although those of the CPU do it: a table, so that a device
// that computes on the CPU refuses it too.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <string_view>
#include <vector>

namespace tessera::async_device {

struct Refusal {
  std::string_view op;  // with its overload, as in "_softmax.out"
  bool (*applies)(const std::vector<c10::IValue>& arguments) = nullptr;
  std::string_view why;
  std::string_view source;  // where LibTorch's code for CUDA says so
};

const std::vector<Refusal>& refusals();

// Throws UserError if a row applies.
void refuse(const std::string& op, const std::vector<c10::IValue>& arguments);

}  // namespace tessera::async_device
