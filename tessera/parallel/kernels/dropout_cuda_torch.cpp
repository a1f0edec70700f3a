#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/parallel/kernels/dropout_cuda.hpp"
#include "tessera/parallel/kernels/launch.hpp"

namespace tessera::parallel::kernels {
namespace {

using at::Tensor;

Element element_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return Element::fp32;
    case at::kDouble:
      return Element::fp64;
    case at::kBFloat16:
      return Element::bf16;
    case at::kHalf:
      return Element::fp16;
    default:
      throw Bug("dropout of a dtype that nothing computes with");
  }
}

// Kernels count rows and channels in 32 bits, with room to step over the end.
std::uint32_t counted(std::int64_t number) {
  TESSERA_CHECK(number >= 0 && number <= std::numeric_limits<std::int32_t>::max(),
                "dropout on a GPU: ", number, " rows or channels");
  return static_cast<std::uint32_t>(number);
}

Tensor on_cuda(const Tensor& given, const Tensor& samples, const Tensor& positions, std::int64_t first,
               std::int64_t first_channel, std::int64_t key, std::int64_t dropped) {
  const c10::cuda::CUDAGuard on_device(given.device());
  const Tensor x = given.contiguous();
  const Tensor out = at::empty(x.sizes(), x.options());
  if (x.numel() == 0) return out;
  TESSERA_CHECK(samples.device() == x.device() && positions.device() == x.device() &&
                    samples.is_contiguous() && positions.is_contiguous(),
                "dropout: samples and positions lie elsewhere");
  counted(first + x.size(0));
  launch_dropout({.element = element_of(x.scalar_type()),
                  .x = x.const_data_ptr(),
                  .out = out.mutable_data_ptr(),
                  .samples = samples.const_data_ptr<std::int64_t>(),
                  .positions = positions.const_data_ptr<std::int64_t>(),
                  .rows = counted(x.size(0)),
                  .channels = counted(x.size(1)),
                  .first = counted(first),
                  .positions_per_sample = counted(positions.numel()),
                  .first_channel = counted(first_channel),
                  .key = static_cast<std::uint64_t>(key),
                  .dropped = counted(dropped)},
                 c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

}  // namespace

void add_cuda_dropout(torch::Library& library) {
  library.impl("dropout", torch::dispatch(c10::kCUDA, &on_cuda));
}

}  // namespace tessera::parallel::kernels
