#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/parallel/dropout.hpp"

namespace tessera::parallel {

namespace {

using tensor::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::int64_t kSteps = 1 << 16;

template <typename T, typename Wide>
[[gnu::always_inline]] inline void scaled(const T* x, const std::uint16_t* random, T* out, std::int64_t n,
                                          std::int64_t dropped) {
  const auto scale = static_cast<Wide>(static_cast<double>(kSteps) / static_cast<double>(kSteps - dropped));
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
// Chosen by hand, as base/random.cpp says why.
const auto row_of_floats = __builtin_cpu_supports("avx512f") ? row_512
                           : __builtin_cpu_supports("avx2")  ? row_256
                                                             : row_plain;
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

struct Mask {
  std::uint64_t key;
  std::int64_t dropped;
  std::span<const std::int64_t> samples, positions;
  std::int64_t first;

  template <typename T>
  void rows(const Tensor& x, Tensor& out) const {
    const std::int64_t channels = x.size(1), per_sample = std::ssize(positions);
    std::vector<std::uint16_t> random(static_cast<std::size_t>(channels));
    const T* from = x.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    for (std::int64_t i = first; i < first + x.size(0); ++i, from += channels, to += channels) {
      const auto sample = static_cast<std::uint64_t>(samples[static_cast<std::size_t>(i / per_sample)]);
      const auto position = positions[static_cast<std::size_t>(i % per_sample)];
      random_halves(key,
                    {static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(sample),
                     static_cast<std::uint32_t>(sample >> 32)},
                    random);
      row(from, random.data(), to, channels, dropped);
    }
  }
  // The counter-based numbers are drawn on the CPU, wherever x lies.
  Tensor operator()(const Tensor& x) const { return on_cpu(x.cpu().contiguous()).to(x.device()); }
  Tensor on_cpu(const Tensor& x) const {
    Tensor out = tensor::empty(x.sizes(), x.scalar_type());
    switch (x.scalar_type()) {
      case at::kFloat:
        return rows<float>(x, out), out;
      case at::kDouble:
        return rows<double>(x, out), out;
      case at::kBFloat16:
        return rows<at::BFloat16>(x, out), out;
      case at::kHalf:
        return rows<at::Half>(x, out), out;
      default:
        throw Bug("dropout of a dtype that nothing computes with");
    }
  }
};

struct Dropped : Function<Dropped> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Mask* mask) {
    ctx->saved_data["key"] = static_cast<std::int64_t>(mask->key);
    ctx->saved_data["dropped"] = mask->dropped;
    ctx->saved_data["samples"] = std::vector<std::int64_t>(mask->samples.begin(), mask->samples.end());
    ctx->saved_data["positions"] = reinterpret_cast<std::int64_t>(mask->positions.data());
    ctx->saved_data["num_positions"] = std::ssize(mask->positions);
    ctx->saved_data["first"] = mask->first;
    return (*mask)(x);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto samples = ctx->saved_data["samples"].toIntVector();
    const std::span positions(reinterpret_cast<const std::int64_t*>(ctx->saved_data["positions"].toInt()),
                              static_cast<std::size_t>(ctx->saved_data["num_positions"].toInt()));
    const Mask mask{static_cast<std::uint64_t>(ctx->saved_data["key"].toInt()),
                    ctx->saved_data["dropped"].toInt(), samples, positions, ctx->saved_data["first"].toInt()};
    return {mask(gradients[0]), Tensor()};
  }
};

}  // namespace

Dropout::Dropout(double rate, std::uint64_t seed, std::int64_t unit, Place place)
    : key_(random_bits(seed, stream_of("dropout"),
                       static_cast<std::uint64_t>(unit) * 4 + static_cast<std::uint64_t>(place))),
      dropped_(std::min<std::int64_t>(kSteps - 1, std::llround(rate * static_cast<double>(kSteps)))) {}

Tensor Dropout::operator()(const Tensor& x_TH, const Rows& rows) const {
  if (dropped_ == 0 || rows.samples.empty()) return x_TH;
  TESSERA_CHECK(
      x_TH.dim() == 2 && rows.first + x_TH.size(0) <= std::ssize(rows.samples) * std::ssize(rows.positions),
      "dropout: rows from ", rows.first, " on, ", x_TH.size(0), " of them, for ", rows.samples.size(),
      " samples");
  const std::vector<std::int64_t> samples(rows.samples.begin(), rows.samples.end());
  const Mask mask{key_, dropped_, samples, rows.positions, rows.first};
  return Dropped::apply(x_TH, &mask);
}

}  // namespace tessera::parallel
