#include "tessera/engine/packed.hpp"

#include <algorithm>
#include <limits>

#include "tessera/program/ir/calls.hpp"

namespace tessera::engine {

using program::Wire;
using tensor::Tensor;

namespace {

constexpr double kMost = 127;
constexpr std::int64_t kScaleBytes = sizeof(float);

// Elements that are gone over at a time, whole blocks: on a CPU as many as its cache holds.
std::int64_t at_a_time(const Tensor& t, std::int64_t elements, std::int64_t block) {
  constexpr std::int64_t kCached = 1 << 15;
  return t.is_cpu() ? std::max(kCached / block, std::int64_t{1}) * block : elements;
}

// As rows of a block each; the last one is filled up with zeros.
Tensor in_blocks(const Tensor& flat, std::int64_t block) {
  const std::int64_t rest = flat.numel() % block;
  if (rest == 0) return flat.view({-1, block});
  return tensor::concatenate({flat, tensor::zeros({block - rest}, flat.scalar_type(), flat.device())}, 0)
      .view({-1, block});
}

// Into rows of a scale and a block each.
void pack(const Tensor& x, const Tensor& into) {
  const std::int64_t block = x.size(1);
  const Tensor most = x.abs().amax(1, true);
  const Tensor scale =
      most.div(kMost)
          .to(at::kFloat)
          .masked_fill(most.isfinite().logical_not(), std::numeric_limits<double>::quiet_NaN());
  const Tensor divisor = scale.to(x.scalar_type());
  // Of zeros, and where the scale is no number, zeros.
  const Tensor values =
      x.div(divisor).round_().clamp_(-kMost, kMost).masked_fill_(divisor.gt(0).logical_not(), 0);
  into.narrow(1, 0, kScaleBytes).copy_(scale.view(at::kByte));
  into.narrow(1, kScaleBytes, block).view(at::kChar).copy_(values);
}

Tensor unpack(const Tensor& rows, std::int64_t block, at::ScalarType wide) {
  const Tensor scale = rows.narrow(1, 0, kScaleBytes).contiguous().view(at::kFloat).to(wide);
  return rows.narrow(1, kScaleBytes, block).view(at::kChar).to(wide).mul_(scale).view({-1});
}

}  // namespace

Tensor packed(const Tensor& flat, Wire wire, std::int64_t block) {
  if (wire == Wire::bf16) return flat.to(at::kBFloat16).contiguous().view(at::kByte);
  const std::int64_t elements = flat.numel(), step = at_a_time(flat, elements, block);
  Tensor out = tensor::empty({program::packed_bytes(elements, wire, block)}, at::kByte, flat.device());
  const Tensor rows = out.view({-1, kScaleBytes + block});
  for (std::int64_t first = 0; first < elements; first += step) {
    const Tensor part = flat.narrow(0, first, std::min(step, elements - first));
    const Tensor x = in_blocks(part.to(tensor::wide(flat.scalar_type())).contiguous(), block);
    pack(x, rows.narrow(0, first / block, x.size(0)));
  }
  return out;
}

Tensor unpacked(const Tensor& bytes, std::int64_t elements, at::ScalarType dtype, Wire wire,
                std::int64_t block) {
  if (wire == Wire::bf16) return bytes.view(at::kBFloat16).to(dtype);
  const Tensor rows = bytes.view({-1, kScaleBytes + block});
  const std::int64_t step = at_a_time(bytes, elements, block);
  Tensor out = tensor::empty({elements}, dtype, bytes.device());
  for (std::int64_t first = 0; first < elements; first += step) {
    const std::int64_t count = std::min(step, elements - first), blocks = (count + block - 1) / block;
    out.narrow(0, first, count)
        .copy_(unpack(rows.narrow(0, first / block, blocks), block, tensor::wide(dtype)).narrow(0, 0, count));
  }
  return out;
}

}  // namespace tessera::engine
