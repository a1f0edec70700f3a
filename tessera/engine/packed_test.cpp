#include "tessera/engine/packed.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/engine/packed_exchange.hpp"
#include "tessera/engine/thin_sum.hpp"
#include "tessera/program/ir/calls.hpp"

namespace tessera::engine {
namespace {

using program::Wire;
using tensor::Tensor;

Tensor wave(std::int64_t elements, at::ScalarType dtype, double phase = 0) {
  Tensor out = tensor::empty({elements}, at::kDouble);
  for (std::int64_t i = 0; i < elements; ++i)
    out.mutable_data_ptr<double>()[i] =
        std::sin(static_cast<double>(i * i) + phase) * (1 + static_cast<double>(i % 7));
  return out.to(dtype);
}

TEST(Packed, TakesTheBytesThatThePlanSays) {
  for (const std::int64_t elements : {1, 63, 64, 65, 1000})
    for (const Wire wire : {Wire::bf16, Wire::int8})
      EXPECT_EQ(packed(wave(elements, at::kFloat), wire, 64).numel(),
                program::packed_bytes(elements, wire, 64));
  EXPECT_EQ(program::packed_bytes(1 << 20, Wire::bf16, 64), (1 << 20) * 4 * 0.5);
  EXPECT_EQ(static_cast<double>(program::packed_bytes(1 << 20, Wire::int8, 64)), (1 << 20) * 4 * 0.265625);
}

TEST(Packed, IsOffByHalfAStepAtMost) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const Tensor flat = wave(1000, dtype);
    const Tensor back = unpacked(packed(flat, Wire::int8, 64), 1000, dtype, Wire::int8, 64);
    for (std::int64_t first = 0; first < 1000; first += 64) {
      const Tensor part = flat.narrow(0, first, std::min<std::int64_t>(64, 1000 - first));
      const double step = part.abs().max().item<double>() / 127;
      EXPECT_LE(part.sub(back.narrow(0, first, part.numel())).abs().max().item<double>(), 0.5001 * step);
    }
    EXPECT_TRUE(tensor::bit_equal(unpacked(packed(flat, Wire::bf16, 64), 1000, dtype, Wire::bf16, 64),
                                  flat.to(at::kBFloat16).to(dtype)));
  }
}

TEST(Packed, KeepsZerosAndTellsWhatIsNotFinite) {
  const Tensor zeros = tensor::zeros({100}, at::kFloat);
  EXPECT_TRUE(
      tensor::bit_equal(unpacked(packed(zeros, Wire::int8, 64), 100, at::kFloat, Wire::int8, 64), zeros));
  for (const double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    Tensor flat = wave(100, at::kFloat);
    flat.mutable_data_ptr<float>()[70] = static_cast<float>(bad);
    const Tensor back = unpacked(packed(flat, Wire::int8, 64), 100, at::kFloat, Wire::int8, 64);
    EXPECT_TRUE(std::isfinite(back.narrow(0, 0, 64).sum().item<double>()));
    EXPECT_TRUE(std::isnan(back.narrow(0, 64, 36).sum().item<double>()));
  }
}

TEST(Packed, SumsAreEqualOnAllRanksAndNearTheExact) {
  std::vector<Tensor> sums(3);
  collective::run_ranks(3, [&](const collective::Communicator& all) {
    const auto group = collective::make_groups(all, {{0, 1, 2}}).front();
    Tensor whole = wave(1000, at::kFloat, all.rank());
    PackedExchange(group, Wire::int8, 64).all_reduce(whole, 384);
    sums[static_cast<std::size_t>(all.rank())] = whole;
  });
  EXPECT_TRUE(tensor::bit_equal(sums[0], sums[1]) && tensor::bit_equal(sums[0], sums[2]));
  const Tensor exact = wave(1000, at::kFloat).add(wave(1000, at::kFloat, 1)).add(wave(1000, at::kFloat, 2));
  const double error = sums[0].sub(exact).abs().max().item<double>();
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 0.3);
}

program::Bucket bucket_of(std::int64_t rows, std::int64_t columns, std::int64_t rank) {
  program::Bucket out{
      .name = "b", .parameters = {{.name = "w", .shape = {rows, columns}}}, .elements = rows * columns};
  out.rank = rank;
  return out;
}

// Of a matrix that has that rank nothing is left out, from the second sum on at the latest.
TEST(ThinSum, OfAThinMatrixIsTheMatrix) {
  const auto bucket = bucket_of(30, 20, 2);
  const Tensor thin =
      wave(60, at::kDouble).view({30, 2}).matmul(wave(40, at::kDouble, 1).view({2, 20})).reshape({-1});
  ThinSum sum(bucket, 1, at::kDouble);
  const collective::Group alone;
  Tensor whole = thin.clone();
  sum.reduce(whole, alone);
  EXPECT_LT(whole.sub(thin).abs().max().item<double>(), 1e-10);
  EXPECT_LT(sum.error().abs().max().item<double>(), 1e-10);
}

// What is left out comes later: over many sums of the same matrix the mean of what was taken is the matrix.
TEST(ThinSum, LeavesNothingOutForEver) {
  const auto bucket = bucket_of(12, 9, 1);
  const Tensor matrix = wave(108, at::kDouble);
  ThinSum sum(bucket, 1, at::kDouble);
  const collective::Group alone;
  Tensor taken = tensor::zeros({108}, at::kDouble);
  constexpr int kTimes = 400;
  for (int i = 0; i < kTimes; ++i) {
    Tensor whole = matrix.clone();
    sum.reduce(whole, alone);
    taken.add_(whole, 1.0 / kTimes);
  }
  EXPECT_LT(taken.sub(matrix).abs().max().item<double>(), 0.2);
  EXPECT_LT(taken.add(sum.error(), 1.0 / kTimes).sub(matrix).abs().max().item<double>(), 1e-10);
}

TEST(ThinSum, OfSeveralRanksIsThatOfTheirSumHoweverErrorsLie) {
  const auto bucket = bucket_of(20, 16, 2);
  const auto sums_on = [&](int ranks, bool settles) {
    Tensor out;
    collective::run_ranks(ranks, [&](const collective::Communicator& all) {
      std::vector<int> list;
      for (int rank = 0; rank < ranks; ++rank) list.push_back(rank);
      const auto group = ranks == 1 ? collective::Group() : collective::make_groups(all, {list}).front();
      ThinSum sum(bucket, 1, at::kDouble);
      for (int step = 0; step < 5; ++step) {
        // The same sum, in unequal parts.
        Tensor whole = wave(320, at::kDouble, step)
                           .mul(ranks == 1        ? 1.0
                                : all.rank() == 0 ? 3.0
                                                  : -2.0 / (ranks - 1));
        if (settles && step == 3) sum.settle(group);
        sum.reduce(whole, group);
        if (all.rank() == 0) out = whole;
      }
    });
    return out;
  };
  const Tensor alone = sums_on(1, false);
  EXPECT_LT(sums_on(3, false).sub(alone).abs().max().item<double>(), 1e-9);
  EXPECT_LT(sums_on(2, true).sub(alone).abs().max().item<double>(), 1e-9);
}

TEST(ThinSum, KeepsItsErrorThroughWhatIsNotFinite) {
  const auto bucket = bucket_of(12, 9, 1);
  ThinSum sum(bucket, 1, at::kDouble);
  const collective::Group alone;
  Tensor whole = wave(108, at::kDouble);
  sum.reduce(whole, alone);
  const Tensor before = sum.error().clone();
  Tensor bad = wave(108, at::kDouble);
  bad.mutable_data_ptr<double>()[5] = std::numeric_limits<double>::infinity();
  sum.reduce(bad, alone);
  EXPECT_TRUE(std::isnan(bad.sum().item<double>()));
  EXPECT_TRUE(tensor::bit_equal(before, sum.error()));
}

}  // namespace
}  // namespace tessera::engine
