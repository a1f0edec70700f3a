// The few words of CUDA that kernels are written in, for an ordinary compiler: a grid's threads run one after
// the other. Kernels that wait for each other's threads can't run so.
#pragma once

#include <bit>
#include <cstdint>

#define __global__
#define __device__

namespace tessera::parallel::kernels {

struct dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
};
inline thread_local dim3 gridDim, blockDim, blockIdx, threadIdx;

inline std::uint32_t __float_as_uint(float x) { return std::bit_cast<std::uint32_t>(x); }
inline float __uint_as_float(std::uint32_t x) { return std::bit_cast<float>(x); }

// Calls the kernel once for each thread.
template <typename Kernel>
void run_grid(const dim3& grid, const dim3& block, const Kernel& kernel) {
  gridDim = grid;
  blockDim = block;
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x)
        for (threadIdx.z = 0; threadIdx.z < block.z; ++threadIdx.z)
          for (threadIdx.y = 0; threadIdx.y < block.y; ++threadIdx.y)
            for (threadIdx.x = 0; threadIdx.x < block.x; ++threadIdx.x) kernel();
}

}  // namespace tessera::parallel::kernels
