#include "tessera/parallel/dropout.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace tessera::parallel {
namespace {

using tensor::Tensor;
using Place = Dropout::Place;
using Indices = std::vector<std::int64_t>;

// All rows of samples of so many positions.
Rows whole(const Indices& samples, std::int64_t num_positions) {
  Indices positions(static_cast<std::size_t>(num_positions));
  std::iota(positions.begin(), positions.end(), 0);
  return {tensor::indices(samples), tensor::indices(positions), 0};
}

Tensor ones(std::int64_t rows, std::int64_t channels, at::ScalarType dtype = at::kFloat) {
  return tensor::empty({rows, channels}, dtype).fill_(1);
}

double share_of_zeros(const Tensor& t) { return t.eq(0).to(at::kDouble).mean().item<double>(); }

TEST(Dropout, ZeroesItsShareAndKeepsTheExpectation) {
  for (const double rate : {0.1, 0.5, 0.9}) {
    const Tensor y = Dropout(rate, 1, 3, Place::mlp)(ones(2000, 100), whole({5, 6}, 1000));
    const double n = 200'000;
    EXPECT_NEAR(share_of_zeros(y), rate, 5 * std::sqrt(rate * (1 - rate) / n)) << rate;
    EXPECT_NEAR(y.to(at::kDouble).mean().item<double>(), 1.0, 5 * std::sqrt(rate / (1 - rate) / n)) << rate;
    EXPECT_NEAR(y.max().item<double>(), 1 / (1 - rate), 2e-4 / (1 - rate)) << rate;
  }
}

TEST(Dropout, IsAFunctionOfTheSampleNotOfItsPlaceInAMicroBatch) {
  const Dropout drop(0.3, 1, 2, Place::attention);
  const Tensor together = drop(ones(3 * 7, 50), whole({8, 4, 9}, 7));
  const Tensor alone = drop(ones(7, 50), whole({4}, 7));
  EXPECT_TRUE(tensor::bit_equal(together.narrow(0, 7, 7), alone));
  const Tensor wide = drop(ones(7, 300), whole({4}, 7));
  EXPECT_TRUE(tensor::bit_equal(wide.narrow(1, 0, 50), alone)) << "channels count from 0, whatever follows";
}

TEST(Dropout, IsAFunctionOfThePositionNotOfTheRankThatHoldsIt) {
  const Dropout drop(0.3, 1, 2, Place::attention);
  const Tensor all = drop(ones(2 * 8, 50), whole({8, 4}, 8));
  const Tensor samples = tensor::indices(Indices{8, 4});
  const Tensor last = tensor::indices(Indices{6, 7, 2, 3});  // a rank that holds these of each sample
  const Tensor mine = drop(ones(8, 50), {samples, last, 0});
  EXPECT_TRUE(tensor::bit_equal(mine.narrow(0, 4, 2), all.narrow(0, 14, 2)));
  EXPECT_TRUE(tensor::bit_equal(mine.narrow(0, 2, 2), all.narrow(0, 2, 2)));
  const Tensor rest =
      drop(ones(3, 50), {samples, last, 5});  // and another that has only rows 5 to 7 of those
  EXPECT_TRUE(tensor::bit_equal(rest, mine.narrow(0, 5, 3)));
}

TEST(Dropout, DiffersBySeedUnitPlaceSampleAndPosition) {
  const auto mask = [](std::uint64_t seed, std::int64_t unit, Place place, std::int64_t sample) {
    return Dropout(0.5, seed, unit, place)(ones(2, 4000), whole({sample}, 2));
  };
  const Tensor base = mask(1, 2, Place::attention, 3);
  const std::int64_t far = 3 + (std::int64_t{1} << 40);
  for (const Tensor& other :
       {mask(2, 2, Place::attention, 3), mask(1, 3, Place::attention, 3), mask(1, 2, Place::mlp, 3),
        mask(1, 2, Place::attention, 4), mask(1, 2, Place::attention, far)})
    EXPECT_NEAR(base.eq(other).to(at::kDouble).mean().item<double>(), 0.5, 0.03);
  EXPECT_NEAR(base.select(0, 0).eq(base.select(0, 1)).to(at::kDouble).mean().item<double>(), 0.5, 0.04);
}

TEST(Dropout, TheBackwardMultipliesWithTheSameMask) {
  const Dropout drop(0.4, 1, 1, Place::mlp);
  const Tensor x = ones(6, 33, at::kDouble).requires_grad_(true);
  const Rows rows = whole({1, 2}, 3);
  const Tensor y = drop(x, rows);
  const std::vector<Tensor> roots = {y}, gradients = {ones(6, 33, at::kDouble)}, leaves = {x};
  const Tensor dx = tensor::Graph(roots).run(gradients, leaves).front();
  EXPECT_TRUE(tensor::bit_equal(dx, y.detach()));
}

TEST(Dropout, EveryDtypeHasTheSameMask) {
  const Dropout drop(0.5, 1, 1, Place::mlp);
  const Tensor expected = drop(ones(4, 130), whole({1}, 4)).to(at::kDouble);
  for (const auto dtype : {at::kDouble, at::kBFloat16, at::kHalf})
    EXPECT_TRUE(tensor::bit_equal(drop(ones(4, 130, dtype), whole({1}, 4)).to(at::kDouble), expected));
}

TEST(Dropout, OfRateZeroOrWithoutSamplesChangesNothing) {
  const Tensor x = ones(4, 8);
  EXPECT_TRUE(Dropout(0.0, 1, 1, Place::mlp)(x, whole({1}, 4)).is_same(x));
  EXPECT_TRUE(Dropout(0.5, 1, 1, Place::mlp)(x, Rows{}).is_same(x));
}

}  // namespace
}  // namespace tessera::parallel
