#include <ATen/core/Tensor.h>

#include <algorithm>

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

// Of flash attention: the first of query, key and value among the arguments.
template <std::size_t query>
bool is_wide(const Arguments& arguments) {
  return !has_dtype(arguments[query], at::kBFloat16) && !has_dtype(arguments[query], at::kHalf);
}

template <std::size_t query>
bool has_large_heads(const Arguments& arguments) {
  return arguments[query].toTensor().size(3) > 256;
}

template <std::size_t query>
bool has_uneven_heads(const Arguments& arguments) {
  return arguments[query].toTensor().size(3) % 8 != 0;
}

template <std::size_t query>
bool scatters_channels(const Arguments& arguments) {
  return std::any_of(arguments.begin() + query, arguments.begin() + query + 3,
                     [](const c10::IValue& t) { return t.toTensor().stride(3) != 1; });
}

// No check there: it reads other numbers.
bool scatters_sums(const Arguments& arguments) { return !arguments[5].toTensor().is_contiguous(); }

}  // namespace

const std::vector<Refusal>& refusals() {
  constexpr std::string_view kFlash = "_scaled_dot_product_flash_attention",
                             kFlashBackward = "_scaled_dot_product_flash_attention_backward";
  constexpr std::string_view kForwardSource =
      "aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp (mha_fwd)";
  constexpr std::string_view kBackwardSource =
      "aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp (mha_bwd)";
  static const std::vector<Refusal> rows = {
      {"native_layer_norm", norm_mixes_dtypes, "layer norm wants input, weight and bias in one dtype",
       "aten/src/ATen/native/cuda/layer_norm_kernel.cu (LayerNormKernelImpl)"},
      {"_flash_attention_forward", is_fp64, "flash attention computes in fp16 and bf16 only", kForwardSource},
      {kFlash, is_wide<0>, "flash attention computes in fp16 and bf16 only", kForwardSource},
      {kFlash, has_large_heads<0>, "flash attention takes heads of 256 channels at most", kForwardSource},
      {kFlash, has_uneven_heads<0>, "flash attention takes heads of a multiple of 8 channels",
       kForwardSource},
      {kFlash, scatters_channels<0>, "flash attention wants a head's channels side by side", kForwardSource},
      {kFlashBackward, is_wide<1>, "flash attention computes in fp16 and bf16 only", kBackwardSource},
      {kFlashBackward, has_large_heads<1>, "flash attention takes heads of 256 channels at most",
       kBackwardSource},
      {kFlashBackward, has_uneven_heads<1>, "flash attention takes heads of a multiple of 8 channels",
       kBackwardSource},
      {kFlashBackward, scatters_channels<1>, "flash attention wants a head's channels side by side",
       kBackwardSource},
      {kFlashBackward, scatters_sums, "flash attention reads the log-sum-exp as if it were dense",
       kBackwardSource},
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
