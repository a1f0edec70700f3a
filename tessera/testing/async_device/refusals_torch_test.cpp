#include "tessera/testing/async_device/refusals.hpp"

#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/native_layer_norm.h>
#include <gmock/gmock.h>

#include <map>

#include "tessera/base/error.hpp"
#include "tessera/tensor/tensor.hpp"
#include "tessera/testing/async_device/device.hpp"

namespace tessera::async_device {
namespace {

using at::Tensor;
using ::testing::HasSubstr;

class Refusals : public testing::Test {
 protected:
  static Tensor made(at::IntArrayRef shape, at::ScalarType dtype) {
    return tensor::empty(shape, dtype, c10::Device(kType, 0)).zero_();
  }
  static void expect_refused(const std::string& op, const std::function<void()>& call) {
    try {
      call();
      FAIL() << op << " was done";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("a GPU would refuse " + op));
    }
  }
  Devices devices_{Pace{}};
};

TEST_F(Refusals, EveryRowRefuses) {
  const std::map<std::string, std::function<void()>> calls = {
      {"native_layer_norm",
       [] {
         at::native_layer_norm(made({2, 8}, at::kBFloat16), {8}, made({8}, at::kFloat), {}, 1e-5);
       }},
      {"_flash_attention_forward",
       [] {
         const Tensor t = made({1, 4, 2, 8}, at::kDouble);
         at::_flash_attention_forward(t, t, t, {}, {}, 4, 4, 0.0, true, false);
       }},
      {"_grouped_mm",
       [] {
         at::_grouped_mm(made({2, 16, 16}, at::kDouble), made({2, 16, 16}, at::kDouble));
       }},
  };
  for (const Refusal& row : refusals()) {
    SCOPED_TRACE(row.op);
    const auto call = calls.find(std::string(row.op));
    ASSERT_NE(call, calls.end()) << "a row without a test";
    EXPECT_FALSE(row.source.empty());
    expect_refused(call->first, call->second);
  }
}

TEST_F(Refusals, WhatAGpuDoesIsDone) {
  at::native_layer_norm(made({2, 8}, at::kBFloat16), {8}, made({8}, at::kBFloat16), {}, 1e-5);
  at::native_layer_norm(made({2, 8}, at::kDouble), {8}, made({8}, at::kDouble), {}, 1e-5);
}

}  // namespace
}  // namespace tessera::async_device
