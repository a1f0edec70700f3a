// How kernels are launched: plain functions, whose sources nvcc compiles. Nothing of CUDA is named here.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera::parallel::kernels {

enum class Element { fp32, fp64, bf16, fp16 };

// Dropout of contiguous rows; all pointers are the device's. Row i of x is row first + i of samples *
// positions, as parallel::Rows counts them.
struct DropoutLaunch {
  Element element = Element::fp32;
  const void* x = nullptr;
  void* out = nullptr;
  const std::int64_t *samples = nullptr, *positions = nullptr;
  std::uint32_t rows = 0, channels = 0, first = 0, positions_per_sample = 0;
  std::uint32_t first_channel = 0;  // of the masked channels, that of x's first
  std::uint64_t key = 0;
  std::uint32_t dropped = 0;  // of kDropoutSteps
};

// Threads of a block: as many lanes as random_halves has, so that each computes whole blocks of Philox, and
// rows. Blocks of the grid: rows, and groups of channels.
inline constexpr std::uint32_t kLanes = 16, kRowsOfBlock = 16, kChannelsOfGroup = 8 * kLanes;
struct Grid {
  std::uint32_t x = 1, y = 1;
};
inline Grid dropout_grid(const DropoutLaunch& launch) {
  constexpr std::uint32_t kGroupsOfThread = 4, kMost = 65535;
  const auto parts = [](std::uint32_t all, std::uint32_t of) { return all / of + (all % of != 0); };
  const std::uint32_t groups =
      parts(launch.first_channel % kChannelsOfGroup + launch.channels, kChannelsOfGroup);
  return {parts(launch.rows, kRowsOfBlock), std::min(parts(groups, kGroupsOfThread), kMost)};
}

// Rates are multiples of one part in so many; what is kept is multiplied with the scale.
inline constexpr std::int64_t kDropoutSteps = 1 << 16;
inline double dropout_scale(std::int64_t dropped) {
  return static_cast<double>(kDropoutSteps) / static_cast<double>(kDropoutSteps - dropped);
}

// Issues on the stream, a cudaStream_t. There are rows and channels. Errors are left for cudaGetLastError.
void launch_dropout(const DropoutLaunch& launch, void* stream);

}  // namespace tessera::parallel::kernels
