#include "tessera/tensor/warm_up.hpp"

#include <mutex>

#include "tessera/tensor/tensor.hpp"

namespace tessera::tensor {

namespace {

void call_all(at::ScalarType dtype) {
  const at::NoGradGuard untaped;
  constexpr std::int64_t kSide = 64;  // long enough for kernels that go by vectors
  const Tensor x = zeros({kSide, kSide}, dtype).add_(0.5);
  [[maybe_unused]] const Tensor results[] = {x.cos(),           x.sin(),    x.exp(),         x.tanh(),
                                             x.erf(),           x.log(),    x.rsqrt(),       x.sqrt(),
                                             x.sigmoid(),       x.pow(1.5), x.logsumexp(-1), x.logaddexp(x),
                                             x.log_softmax(-1), x.mm(x),    tensor::gelu(x)};
}

}  // namespace

void warm_up() {
  static std::once_flag is_warm;
  std::call_once(is_warm, [] {
    call_all(at::kFloat);
    call_all(at::kDouble);
  });
}

}  // namespace tessera::tensor
