#include "tessera/parallel/kernels/dropout_kernel.hpp"

namespace tessera::parallel::kernels {

namespace {
template <typename T, typename Wide>
void launch_with(const DropoutLaunch& launch, cudaStream_t stream) {
  const Grid grid = dropout_grid(launch);
  dropout_kernel<T, Wide><<<dim3(grid.x, grid.y), dim3(kLanes, kRowsOfBlock), 0, stream>>>(
      launch, static_cast<Wide>(dropout_scale(launch.dropped)));
}
}  // namespace

void launch_dropout(const DropoutLaunch& launch, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  switch (launch.element) {
    case Element::fp32:
      return launch_with<float, float>(launch, on);
    case Element::fp64:
      return launch_with<double, double>(launch, on);
    case Element::bf16:
      return launch_with<Bf16, float>(launch, on);
    case Element::fp16:
      return launch_with<Fp16, float>(launch, on);
  }
}

}  // namespace tessera::parallel::kernels
