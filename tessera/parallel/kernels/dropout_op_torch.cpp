#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <span>

#include "tessera/base/error.hpp"
#include "tessera/base/instruction_set.hpp"
#include "tessera/base/random.hpp"
#include "tessera/parallel/kernels/dropout_cuda.hpp"
#include "tessera/parallel/kernels/dropout_op.hpp"
#include "tessera/parallel/kernels/launch.hpp"

namespace tessera::parallel::kernels {
namespace {

using at::Tensor;

template <typename T, typename Wide>
[[gnu::always_inline]] inline void scaled(const T* x, const std::uint16_t* random, T* out, std::int64_t n,
                                          std::int64_t dropped) {
  const auto scale = static_cast<Wide>(dropout_scale(dropped));
  const auto bound = static_cast<std::uint16_t>(dropped);
  for (std::int64_t i = 0; i < n; ++i)
    out[i] = static_cast<T>(static_cast<Wide>(x[i]) * (random[i] >= bound ? scale : Wide{0}));
}
void row_plain(const float* x, const std::uint16_t* random, float* out, std::int64_t n,
               std::int64_t dropped) {
  scaled<float, float>(x, random, out, n, dropped);
}
#if defined(__x86_64__)
[[gnu::target("avx512f"), gnu::optimize("O3")]] void row_512(const float* x, const std::uint16_t* random,
                                                             float* out, std::int64_t n,
                                                             std::int64_t dropped) {
  scaled<float, float>(x, random, out, n, dropped);
}
[[gnu::target("avx2"), gnu::optimize("O3")]] void row_256(const float* x, const std::uint16_t* random,
                                                          float* out, std::int64_t n, std::int64_t dropped) {
  scaled<float, float>(x, random, out, n, dropped);
}
const auto row_of_floats = for_this_cpu(row_512, row_256, row_plain);
#else
const auto row_of_floats = row_plain;
#endif
void row(const float* x, const std::uint16_t* random, float* out, std::int64_t n, std::int64_t dropped) {
  row_of_floats(x, random, out, n, dropped);
}
void row(const double* x, const std::uint16_t* random, double* out, std::int64_t n, std::int64_t dropped) {
  scaled<double, double>(x, random, out, n, dropped);
}
void row(const at::BFloat16* x, const std::uint16_t* random, at::BFloat16* out, std::int64_t n,
         std::int64_t dropped) {
  scaled<at::BFloat16, float>(x, random, out, n, dropped);
}
void row(const at::Half* x, const std::uint16_t* random, at::Half* out, std::int64_t n,
         std::int64_t dropped) {
  scaled<at::Half, float>(x, random, out, n, dropped);
}

struct MaskOfRows {
  std::uint64_t key;
  std::int64_t dropped, first, first_channel;
  std::span<const std::int64_t> samples, positions;

  template <typename T>
  void apply(const Tensor& x, const Tensor& out) const {
    const std::int64_t channels = x.size(1), per_sample = std::ssize(positions);
    std::vector<std::uint16_t> random(static_cast<std::size_t>(first_channel + channels));
    const T* from = x.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    for (std::int64_t i = first; i < first + x.size(0); ++i, from += channels, to += channels) {
      const auto sample = static_cast<std::uint64_t>(samples[static_cast<std::size_t>(i / per_sample)]);
      const auto position = positions[static_cast<std::size_t>(i % per_sample)];
      random_halves(key,
                    {static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(sample),
                     static_cast<std::uint32_t>(sample >> 32)},
                    random);
      row(from, random.data() + first_channel, to, channels, dropped);
    }
  }
};

std::span<const std::int64_t> elements(const Tensor& t) {
  TESSERA_CHECK(t.is_cpu() && t.is_contiguous(), "dropout: samples and positions lie elsewhere");
  return {t.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(t.numel())};
}

Tensor on_cpu(const Tensor& given, const Tensor& samples, const Tensor& positions, std::int64_t first,
              std::int64_t first_channel, std::int64_t key, std::int64_t dropped) {
  const Tensor x = given.contiguous();
  const Tensor out = at::empty(x.sizes(), x.options());
  const MaskOfRows mask{
      static_cast<std::uint64_t>(key), dropped, first, first_channel, elements(samples), elements(positions)};
  switch (x.scalar_type()) {
    case at::kFloat:
      return mask.apply<float>(x, out), out;
    case at::kDouble:
      return mask.apply<double>(x, out), out;
    case at::kBFloat16:
      return mask.apply<at::BFloat16>(x, out), out;
    case at::kHalf:
      return mask.apply<at::Half>(x, out), out;
    default:
      throw Bug("dropout of a dtype that nothing computes with");
  }
}

Tensor shape_only(const Tensor& x, const Tensor&, const Tensor&, std::int64_t, std::int64_t, std::int64_t,
                  std::int64_t) {
  return at::empty(x.sizes(), x.options());
}

// Never destroyed: LibTorch's own tables may be gone by then.
const torch::Library& registered = []() -> torch::Library& {
  auto& library = *new torch::Library(torch::Library::DEF, "tessera", std::nullopt, __FILE__, __LINE__);
  library.def(
      "dropout(Tensor x, Tensor samples, Tensor positions, int first, int first_channel, int key, int "
      "dropped) -> Tensor");
  library.impl("dropout", torch::dispatch(c10::kCPU, &on_cpu));
  library.impl("dropout", torch::dispatch(c10::kMeta, &shape_only));
  add_cuda_dropout(library);
  return library;
}();

}  // namespace

Tensor dropout(const Tensor& x_TH, const Mask& mask) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("tessera::dropout", "").typed<decltype(on_cpu)>();
  const at::AutoDispatchBelowADInplaceOrView below;
  return op.call(x_TH, mask.samples, mask.positions, mask.first, mask.first_channel,
                 static_cast<std::int64_t>(mask.key), mask.dropped);
}

}  // namespace tessera::parallel::kernels
