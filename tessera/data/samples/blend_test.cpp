// Whether a blend keeps to its weights at every prefix. Costs about 1 s, unoptimised.
#include "tessera/data/samples/blend.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tessera/base/error.hpp"

namespace tessera::data {
namespace {

// The largest |samples of a source - its share| over so many prefixes; each source's samples come in order.
double largest_error(const std::vector<double>& weights, std::uint64_t prefixes) {
  const Blend blend(weights);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> shares;
  for (const double weight : weights) shares.push_back(weight / sum);
  std::vector<std::uint64_t> counts(weights.size(), 0);
  double largest = 0;
  bool is_in_order = true;
  for (std::uint64_t k = 0; k < prefixes; ++k) {
    const BlendPlace place = blend.at(k);
    is_in_order = is_in_order && place.index == counts[place.source];
    ++counts[place.source];
    for (std::size_t i = 0; i < shares.size(); ++i)
      largest = std::max(largest,
                         std::abs(static_cast<double>(counts[i]) - shares[i] * static_cast<double>(k + 1)));
  }
  EXPECT_TRUE(is_in_order);
  return largest;
}

TEST(Blend, IsAtMostOneSampleOffAtEachOfAMillionPrefixes) {
  const std::vector<std::vector<double>> cases = {{0.3, 0.25, 0.2, 0.15, 0.1},
                                                  {1, 1, 1, 1, 1},
                                                  {0.999996, 1e-6, 1e-6, 1e-6, 1e-6},
                                                  {0.96, 0.01, 0.01, 0.01, 0.01},
                                                  {std::sqrt(2), std::sqrt(3), std::sqrt(5), M_PI, M_E},
                                                  {1, 2, 4, 8, 123456.789},
                                                  {5e11, 3e11, 1.5e11, 12345678901, 7777777}};
  for (const auto& weights : cases) {
    const double error = largest_error(weights, 1'000'000);
    EXPECT_LE(error, 1.0) << "weights " << testing::PrintToString(weights);
    std::printf("at most %.3f samples off\n", error);
  }
}

TEST(Blend, ManySourcesAndFewKeepToIt) {
  std::vector<double> many;
  for (int i = 1; i <= 60; ++i) many.push_back(1.0 / i);
  EXPECT_LE(largest_error(many, 5000), 1.0);
  EXPECT_LE(largest_error({0.7, 0.3}, 10000), 1.0);
  EXPECT_EQ(largest_error({7}, 1000), 0.0);
}

TEST(Blend, WeightsWithFewDecimalsHaveAShortPeriodAndAreExact) {
  EXPECT_THAT(Blend(std::vector{0.3, 0.7}).parts(), testing::ElementsAre(3, 7));
  EXPECT_THAT(Blend(std::vector{30.0, 70.0}).parts(), testing::ElementsAre(3, 7));
  EXPECT_THAT(Blend(std::vector{0.125, 0.5, 0.375}).parts(), testing::ElementsAre(1, 4, 3));
  EXPECT_EQ(Blend(std::vector{1.0, M_PI}).period(), Blend::kMostParts);
}

TEST(Blend, AnySampleIsFoundWithoutTheOnesBefore) {
  const std::vector<double> weights = {0.5, 0.3, 0.2};
  const Blend blend(weights);
  EXPECT_EQ(blend.at(10'000'000'000).index - blend.at(0).index, 5'000'000'000u);
  EXPECT_EQ(blend.at(0).source, blend.at(10'000'000'000).source);
}

TEST(Blend, RefusesWeightsThatMeanNothing) {
  const auto blend = [](std::vector<double> weights) { return [=] { Blend made(weights); }; };
  EXPECT_THROW(blend({1, 0})(), UserError);
  EXPECT_THROW(blend({1, -1})(), UserError);
  EXPECT_THROW(blend({1, NAN})(), UserError);
  EXPECT_THAT(blend({1, 1e-8}),
              testing::ThrowsMessage<UserError>(testing::HasSubstr("source 2 has weight 1e-08, less than")));
}

}  // namespace
}  // namespace tessera::data
