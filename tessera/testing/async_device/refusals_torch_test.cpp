#include "tessera/testing/async_device/refusals.hpp"

#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/native_layer_norm.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/tensor/tensor.hpp"
#include "tessera/testing/async_device/device.hpp"

namespace tessera::async_device {
namespace {

using at::Tensor;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Refusals : public testing::Test {
 protected:
  static Tensor made(at::IntArrayRef shape, at::ScalarType dtype) {
    return tensor::empty(shape, dtype, c10::Device(kType, 0)).zero_();
  }
  static void expect_refused(const std::string& op, const std::string& why,
                             const std::function<void()>& call) {
    try {
      call();
      FAIL() << op << " was done: " << why;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("a GPU would refuse " + op + ":"), HasSubstr(why)));
    }
  }
  Devices devices_{Pace{}};
};

// q, k and v of a shape, and what their attention leaves for its backward.
struct Attention {
  explicit Attention(std::int64_t channels, at::ScalarType dtype)
      : q(tensor::zeros({1, 4, 6, channels}, dtype, c10::Device(kType, 0))),
        k(tensor::zeros({1, 2, 6, channels}, dtype, c10::Device(kType, 0))),
        out(tensor::zeros({1, 4, 6, channels}, dtype, c10::Device(kType, 0))),
        lse(tensor::zeros({1, 4, 6}, at::kFloat, c10::Device(kType, 0))) {}
  void forward() const { at::_scaled_dot_product_flash_attention(q, k, k, 0.0, true, false); }
  void backward() const {
    at::_scaled_dot_product_flash_attention_backward(out, q, k, k, out, lse, {}, {}, 6, 6, 0.0, true, {}, {});
  }
  Tensor q, k, out, lse;
};

Attention with_scattered_channels() {
  Attention attention(16, at::kBFloat16);
  attention.k = tensor::zeros({1, 2, 16, 6}, at::kBFloat16, c10::Device(kType, 0)).transpose(2, 3);
  return attention;
}

Attention with_scattered_sums() {
  Attention attention(16, at::kBFloat16);
  attention.lse = tensor::zeros({1, 4, 8}, at::kFloat, c10::Device(kType, 0)).narrow(2, 2, 6);
  return attention;
}

TEST_F(Refusals, EveryRowRefuses) {
  struct Call {
    std::string op, why;  // a part of it
    std::function<void()> call;
  };
  const std::string flash = "_scaled_dot_product_flash_attention", flash_backward = flash + "_backward";
  const std::vector<Call> calls = {
      {"native_layer_norm", "one dtype",
       [] {
         at::native_layer_norm(made({2, 8}, at::kBFloat16), {8}, made({8}, at::kFloat), {}, 1e-5);
       }},
      {"_flash_attention_forward", "fp16 and bf16",
       [] {
         const Tensor t = made({1, 4, 2, 8}, at::kDouble);
         at::_flash_attention_forward(t, t, t, {}, {}, 4, 4, 0.0, true, false);
       }},
      {flash, "fp16 and bf16", [] { Attention(16, at::kFloat).forward(); }},
      {flash, "fp16 and bf16", [] { Attention(16, at::kDouble).forward(); }},
      {flash, "256 channels", [] { Attention(264, at::kBFloat16).forward(); }},
      {flash, "multiple of 8", [] { Attention(20, at::kHalf).forward(); }},
      {flash, "side by side", [] { with_scattered_channels().forward(); }},
      {flash_backward, "fp16 and bf16", [] { Attention(16, at::kFloat).backward(); }},
      {flash_backward, "fp16 and bf16", [] { Attention(16, at::kDouble).backward(); }},
      {flash_backward, "256 channels", [] { Attention(264, at::kBFloat16).backward(); }},
      {flash_backward, "multiple of 8", [] { Attention(20, at::kHalf).backward(); }},
      {flash_backward, "side by side", [] { with_scattered_channels().backward(); }},
      {flash_backward, "dense", [] { with_scattered_sums().backward(); }},
      {"_grouped_mm", "grouped products",
       [] {
         at::_grouped_mm(made({2, 16, 16}, at::kDouble), made({2, 16, 16}, at::kDouble));
       }},
  };
  for (const Refusal& row : refusals()) {
    SCOPED_TRACE(std::string(row.op) + ": " + std::string(row.why));
    EXPECT_FALSE(row.source.empty());
    EXPECT_TRUE(std::ranges::any_of(calls, [&](const Call& call) {
      return call.op == row.op && row.why.find(call.why) != std::string_view::npos;
    })) << "a row without a test";
  }
  for (const auto& [op, why, call] : calls) expect_refused(op, why, call);
}

TEST_F(Refusals, WhatAGpuDoesIsDone) {
  at::native_layer_norm(made({2, 8}, at::kBFloat16), {8}, made({8}, at::kBFloat16), {}, 1e-5);
  at::native_layer_norm(made({2, 8}, at::kDouble), {8}, made({8}, at::kDouble), {}, 1e-5);
  for (const auto dtype : {at::kBFloat16, at::kHalf})
    for (const std::int64_t channels : {8, 256}) {
      Attention(channels, dtype).forward();
      Attention(channels, dtype).backward();
    }
}

}  // namespace
}  // namespace tessera::async_device
