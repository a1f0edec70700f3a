// What weights add to their gradients on an accelerator.
#include "tessera/shard/weight.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "tessera/tensor/device.hpp"
#include "tessera/testing/async_device/device.hpp"

namespace tessera::async_device {
namespace {

using at::Tensor;

class WeightOnADevice : public testing::Test {
 protected:
  static Tensor there(const Tensor& host) { return tensor::on_device(host, c10::Device(kType, 0)); }
  static Tensor made(std::int64_t rows, std::int64_t columns) {
    return at::arange(rows * columns, at::kFloat).view({rows, columns}).sin_();
  }
  Devices devices_{Pace{}};
};

TEST_F(WeightOnADevice, ProductsOf16BitsAreAddedIn32) {
  const Tensor dy = made(64, 3).to(at::kBFloat16), x = made(64, 5).to(at::kBFloat16);
  shard::Weight weight(Tensor(), there(made(3, 5)));  // what was there before is not a part of the sum
  weight.add_product(there(dy), there(x));
  weight.add_product(there(dy), there(x));
  const Tensor expected = dy.to(at::kDouble).t().mm(x.to(at::kDouble)).mul_(2);
  const Tensor found = tensor::on_host(weight.gradient()).to(at::kDouble);
  EXPECT_LT(found.sub(expected).abs().max().item<double>(), 1e-5 * expected.abs().max().item<double>());
}

TEST_F(WeightOnADevice, RowsThatComeTwiceAddUp) {
  shard::Weight weight(Tensor(), there(made(4, 2)));
  weight.add_rows(there(at::tensor({1, 3, 1}, at::kLong)),
                  there(at::tensor({1., 2., 3., 4., 5., 6.}).view({3, 2})));
  const Tensor expected = at::tensor({0., 0., 6., 8., 0., 0., 3., 4.}).view({4, 2});
  EXPECT_TRUE(tensor::on_host(weight.gradient()).to(at::kDouble).equal(expected.to(at::kDouble)));
}

}  // namespace
}  // namespace tessera::async_device
