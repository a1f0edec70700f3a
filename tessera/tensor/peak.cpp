#include "tessera/tensor/peak.hpp"

#include <ATen/Parallel.h>

#include <algorithm>

#include "tessera/base/clock.hpp"

namespace tessera::tensor {

double measured_flops_per_second(at::ScalarType dtype, double seconds, at::Device device) {
  constexpr std::int64_t kFirstSize = 128;
  const std::int64_t last_size = device.is_cpu() ? 2048 : 8192;
  const double begin = now_seconds();
  std::int64_t size = kFirstSize;
  Tensor a = zeros({size, size}, dtype, device).fill_(0.5), b = a.clone();
  double best = 0;
  do {
    const double start = now_seconds();
    const Tensor product = a.matmul(b);
    if (!device.is_cpu()) product.view({-1}).narrow(0, 0, 1).item<double>();  // waits for the device
    const double took = now_seconds() - start;
    best = std::max(best, 2.0 * static_cast<double>(size * size * size) / took);
    // Larger products come nearer to the peak; eight times the work must still leave time to repeat it.
    if (size < last_size && 8 * took < seconds / 4) {
      size *= 2;
      a = zeros({size, size}, dtype, device).fill_(0.5), b = a.clone();
    }
  } while (now_seconds() - begin < seconds);
  return best;
}

ProductSpeed product_speed(at::ScalarType dtype) {
  constexpr double kSeconds = 0.05;
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  ProductSpeed out{.flops_per_second = measured_flops_per_second(dtype, kSeconds)};
  if (dtype == at::kBFloat16 || dtype == at::kHalf)
    out.times_fp32 = measured_flops_per_second(at::kFloat, kSeconds) / out.flops_per_second;
  at::set_num_threads(threads);
  return out;
}

}  // namespace tessera::tensor
