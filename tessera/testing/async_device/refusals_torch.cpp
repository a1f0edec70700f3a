#include <ATen/core/Tensor.h>

#include "tessera/base/error.hpp"
#include "tessera/testing/async_device/refusals.hpp"

namespace tessera::async_device {
namespace {

using Arguments = std::vector<c10::IValue>;

bool has_dtype(const c10::IValue& value, at::ScalarType dtype) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().scalar_type() == dtype;
}

// Input, normalized_shape, weight, bias, ...: weight and bias in the input's dtype.
bool norm_mixes_dtypes(const Arguments& arguments) {
  const at::ScalarType dtype = arguments[0].toTensor().scalar_type();
  return (arguments[2].isTensor() && !has_dtype(arguments[2], dtype)) ||
         (arguments[3].isTensor() && !has_dtype(arguments[3], dtype));
}

bool is_fp64(const Arguments& arguments) { return has_dtype(arguments[0], at::kDouble); }

}  // namespace

const std::vector<Refusal>& refusals() {
  static const std::vector<Refusal> rows = {
      {"native_layer_norm", norm_mixes_dtypes, "layer norm wants input, weight and bias in one dtype",
       "aten/src/ATen/native/cuda/layer_norm_kernel.cu (LayerNormKernelImpl)"},
      {"_flash_attention_forward", is_fp64, "flash attention computes in fp16 and bf16 only",
       "aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp (mha_fwd)"},
      {"_grouped_mm", is_fp64, "grouped products compute in fp32, bf16 and fp16 only",
       "aten/src/ATen/native/GroupedMMUtils.h (_grouped_mm_validate_inputs)"},
  };
  return rows;
}

void refuse(const std::string& op, const Arguments& arguments) {
  for (const Refusal& row : refusals())
    if (row.op == op && row.applies(arguments))
      throw UserError(cat("a GPU would refuse ", op, ": ", row.why, " (", row.source, ")"));
}

}  // namespace tessera::async_device
