#include "tessera/engine/packed.hpp"

#include <limits>

#include "tessera/program/ir/calls.hpp"

namespace tessera::engine {

using program::Wire;
using tensor::Tensor;

namespace {

constexpr double kMost = 127;
constexpr std::int64_t kScaleBytes = sizeof(float);

// As rows of a block each; the last one is filled up with zeros.
Tensor in_blocks(const Tensor& flat, std::int64_t block) {
  const std::int64_t elements = flat.numel(), blocks = (elements + block - 1) / block;
  if (blocks * block == elements) return flat.view({blocks, block});
  return tensor::concatenate(
             {flat, tensor::zeros({blocks * block - elements}, flat.scalar_type(), flat.device())}, 0)
      .view({blocks, block});
}

}  // namespace

Tensor packed(const Tensor& flat, Wire wire, std::int64_t block) {
  if (wire == Wire::bf16) return flat.to(at::kBFloat16).contiguous().view(at::kByte);
  const Tensor rows = in_blocks(flat.to(tensor::wide(flat.scalar_type())).contiguous(), block);
  const Tensor most = rows.abs().amax(1, true);
  const Tensor scale =
      most.div(kMost)
          .to(at::kFloat)
          .masked_fill(most.isfinite().logical_not(), std::numeric_limits<double>::quiet_NaN());
  // Of zeros, and where the scale is no number, zeros.
  const Tensor wide_scale = scale.to(rows.scalar_type());
  const Tensor values =
      rows.div(wide_scale).round().clamp(-kMost, kMost).masked_fill(wide_scale.gt(0).logical_not(), 0);
  return tensor::concatenate({scale.view(at::kByte), values.to(at::kChar).view(at::kByte)}, 1).view({-1});
}

Tensor unpacked(const Tensor& bytes, std::int64_t elements, at::ScalarType dtype, Wire wire,
                std::int64_t block) {
  if (wire == Wire::bf16) return bytes.view(at::kBFloat16).to(dtype);
  const Tensor rows = bytes.view({-1, kScaleBytes + block});
  const auto wide = tensor::wide(dtype);
  const Tensor scale = rows.narrow(1, 0, kScaleBytes).contiguous().view(at::kFloat).to(wide);
  return rows.narrow(1, kScaleBytes, block)
      .view(at::kChar)
      .to(wide)
      .mul(scale)
      .view({-1})
      .narrow(0, 0, elements)
      .to(dtype);
}

}  // namespace tessera::engine
