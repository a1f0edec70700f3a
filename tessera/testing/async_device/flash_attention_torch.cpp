// Flash attention on asynchronous devices: what CUDA's kernels take and return, computed by the CPU's.
#include <ATen/SDPBackend.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "tessera/testing/async_device/device.hpp"
#include "tessera/testing/async_device/refusals.hpp"

namespace tessera::async_device {
namespace {

using at::Tensor;
using c10::SymInt;

// Output, log-sum-exp, two lists of sequences that are not there, longest sequences, two states of random
// numbers that nothing draws, a mask that is not made.
using Attended = std::tuple<Tensor, Tensor, Tensor, Tensor, SymInt, SymInt, Tensor, Tensor, Tensor>;

Attended flash_attention(const Tensor& q, const Tensor& k, const Tensor& v, double dropout, bool causal, bool,
                         std::optional<double> scale) {
  constexpr const char* kName = "_scaled_dot_product_flash_attention";
  const c10::DeviceGuard on_device(q.device());
  refuse(kName, {q, k, v, dropout});
  const Tensor out = at::empty_like(q.transpose(1, 2)).transpose(1, 2);
  const Tensor lse = at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::kFloat));
  const Access touched[] = {access_of(q, false), access_of(k, false), access_of(v, false),
                            access_of(out, true), access_of(lse, true)};
  witness().issue(
      current_stream(q.device()), kName, touched,
      [q = on_cpu(q), k = on_cpu(k), v = on_cpu(v), out = on_cpu(out), lse = on_cpu(lse), causal, scale] {
        const auto [found, sums] =
            at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, {}, scale);
        out.copy_(found);
        lse.copy_(sums);
      });
  const auto state = q.options().dtype(at::kUInt64);
  return {out, lse, {}, {}, q.size(2), k.size(2), at::empty({2}, state), at::empty({}, state), {}};
}

std::tuple<Tensor, Tensor, Tensor> flash_attention_backward(const Tensor& d_out, const Tensor& q,
                                                            const Tensor& k, const Tensor& v,
                                                            const Tensor& out, const Tensor& lse,
                                                            const Tensor&, const Tensor&, SymInt, SymInt,
                                                            double dropout, bool causal, const Tensor&,
                                                            const Tensor&, std::optional<double> scale) {
  constexpr const char* kName = "_scaled_dot_product_flash_attention_backward";
  const c10::DeviceGuard on_device(q.device());
  refuse(kName, {d_out, q, k, v, out, lse, dropout});
  const auto like = [](const Tensor& t) { return at::empty_like(t.transpose(1, 2)).transpose(1, 2); };
  const Tensor d_q = like(q), d_k = like(k), d_v = like(v);
  std::vector<Access> touched;
  for (const Tensor& t : {d_out, q, k, v, out, lse}) touched.push_back(access_of(t, false));
  for (const Tensor& t : {d_q, d_k, d_v}) touched.push_back(access_of(t, true));
  witness().issue(
      current_stream(q.device()), kName, touched,
      [d_out = on_cpu(d_out), q = on_cpu(q), k = on_cpu(k), v = on_cpu(v), out = on_cpu(out),
       lse = on_cpu(lse), d_q = on_cpu(d_q), d_k = on_cpu(d_k), d_v = on_cpu(d_v), causal, scale] {
        const auto [found_q, found_k, found_v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
            d_out, q, k, v, out, lse, 0.0, causal, {}, scale);
        d_q.copy_(found_q);
        d_k.copy_(found_k);
        d_v.copy_(found_v);
      });
  return {d_q, d_k, d_v};
}

// In 16 bits the flash kernel, else plain products, as a GPU computes in fp64. LibTorch calls the flash
// kernel of CUDA alone by its name; other devices have an entry of their own.
std::int64_t attention_choice(const Tensor& q, const Tensor&, const Tensor&, const std::optional<Tensor>&,
                              double, bool, std::optional<double>, bool) {
  const bool is_narrow = q.scalar_type() == at::kBFloat16 || q.scalar_type() == at::kHalf;
  return static_cast<std::int64_t>(is_narrow && q.size(3) % 8 == 0 ? at::SDPBackend::overrideable
                                                                   : at::SDPBackend::math);
}

Attended chosen_attention(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>&,
                          double dropout, bool causal, bool debugs, std::optional<double> scale) {
  return flash_attention(q, k, v, dropout, causal, debugs, scale);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> chosen_attention_backward(
    const Tensor& d_out, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&,
    std::array<bool, 4>, const Tensor& out, const Tensor& lse, const Tensor& ends_q, const Tensor& ends_k,
    SymInt longest_q, SymInt longest_k, double dropout, bool causal, const Tensor& seed, const Tensor& offset,
    std::optional<double> scale) {
  auto [d_q, d_k, d_v] = flash_attention_backward(d_out, q, k, v, out, lse, ends_q, ends_k, longest_q,
                                                  longest_k, dropout, causal, seed, offset, scale);
  return {d_q, d_k, d_v, {}};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_scaled_dot_product_flash_attention", flash_attention);
  library.impl("_scaled_dot_product_flash_attention_backward", flash_attention_backward);
  library.impl("_scaled_dot_product_fused_attention_overrideable", chosen_attention);
  library.impl("_scaled_dot_product_fused_attention_overrideable_backward", chosen_attention_backward);
}

}  // namespace
}  // namespace tessera::async_device

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &tessera::async_device::attention_choice)
}
