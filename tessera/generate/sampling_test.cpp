// Which token is picked, and how often. Costs about 0.3 s, unoptimised.
#include "tessera/generate/sampling.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"

namespace tessera::generate {
namespace {

const std::vector<float> kLogits = {1.5f, -0.3f, 2.0f, 0.4f, -4.0f, 1.9f, 0.0f};

// How often each token is drawn.
std::vector<double> drawn(const Sampling& sampling, int draws, std::span<const Token> before = {}) {
  std::vector<double> out(kLogits.size());
  for (int i = 0; i < draws; ++i) {
    std::vector<float> logits = kLogits;
    out[static_cast<std::size_t>(
        pick(logits, before, sampling, random_uniform(3, 0, static_cast<std::uint64_t>(i))))] += 1;
  }
  return out;
}

// Of the tokens that are left, from the definition.
std::vector<double> expected(double temperature, const std::vector<std::size_t>& left) {
  std::vector<double> out(kLogits.size());
  double sum = 0;
  for (const std::size_t token : left) sum += out[token] = std::exp(kLogits[token] / temperature);
  for (double& share : out) share /= sum;
  return out;
}

double chi_square(const std::vector<double>& found, const std::vector<double>& shares) {
  const double draws = std::accumulate(found.begin(), found.end(), 0.0);
  double out = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (shares[i] == 0) {
      EXPECT_EQ(found[i], 0) << "token " << i;
      continue;
    }
    out += std::pow(found[i] - draws * shares[i], 2) / (draws * shares[i]);
  }
  return out;
}

TEST(Sampling, WithoutATemperatureTakesTheFirstOfTheLikeliest) {
  std::vector<float> logits = {1, 3, 2, 3};
  EXPECT_EQ(pick(logits, {}, {}, 0.99), 1);
}

// Six degrees of freedom or fewer: above 22.5 in one of a thousand cases.
TEST(Sampling, DrawsEachTokenAsOftenAsItIsLikely) {
  const std::vector<std::size_t> all = {0, 1, 2, 3, 4, 5, 6};
  constexpr int kDraws = 100'000;
  for (const double temperature : {0.5, 1.0, 2.0})
    EXPECT_LT(chi_square(drawn({.temperature = temperature}, kDraws), expected(temperature, all)), 22.5)
        << temperature;
  EXPECT_LT(chi_square(drawn({.temperature = 1, .top_k = 3}, kDraws), expected(1, {0, 2, 5})), 22.5);
  // Shares: 2 has 0.36, 5 has 0.32, 0 has 0.22.
  EXPECT_LT(chi_square(drawn({.temperature = 1, .top_p = 0.6}, kDraws), expected(1, {2, 5})), 22.5);
  EXPECT_LT(chi_square(drawn({.temperature = 1, .top_p = 0.01}, kDraws), expected(1, {2})), 22.5);
  // exp(0.4 - 2) = 0.20, exp(-2) = 0.14.
  EXPECT_LT(chi_square(drawn({.temperature = 1, .min_p = 0.15}, kDraws), expected(1, {0, 2, 3, 5})), 22.5);
  EXPECT_LT(chi_square(drawn({.temperature = 1, .top_k = 3, .top_p = 0.7}, kDraws), expected(1, {2, 5})),
            22.5);
  EXPECT_GT(chi_square(drawn({.temperature = 1.1}, kDraws), expected(1, all)), 22.5)
      << "the test has no teeth";
}

TEST(Sampling, APenaltyMakesWhatWasThereLessLikelyOnce) {
  std::vector<float> logits = kLogits;
  const std::vector<Token> before = {2, 2, 4};
  EXPECT_EQ(pick(logits, before, {.repetition_penalty = 2}, 0), 5);
  EXPECT_EQ(logits[2], 1.0f);
  EXPECT_EQ(logits[4], -8.0f);
  EXPECT_EQ(logits[0], 1.5f);
}

TEST(Sampling, RefusesLogitsThatAreNoNumbers) {
  std::vector<float> logits = {1, std::nanf(""), 2};
  EXPECT_THROW(pick(logits, {}, {}, 0), UserError);
}

TEST(Sampling, RefusesNumbersThatMeanNothing) {
  EXPECT_NO_THROW(validate({}));
  for (const Sampling& wrong :
       {Sampling{.temperature = -1}, Sampling{.top_k = -1}, Sampling{.top_p = 0}, Sampling{.top_p = 1.1},
        Sampling{.min_p = 2}, Sampling{.repetition_penalty = 0}, Sampling{.temperature = std::nan("")}})
    EXPECT_THROW(validate(wrong), UserError);
}

}  // namespace
}  // namespace tessera::generate
