#include "tessera/generate/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::generate {
namespace {

void penalize(std::span<float> logits, std::span<const Token> before, double penalty) {
  std::vector<Token> seen(before.begin(), before.end());
  std::ranges::sort(seen);
  const auto again = std::ranges::unique(seen);
  seen.erase(again.begin(), again.end());
  for (const Token token : seen) {
    float& logit = logits[static_cast<std::size_t>(token)];
    logit = static_cast<float>(logit < 0 ? logit * penalty : logit / penalty);
  }
}

// How many of the likeliest are left, of weights that fall.
std::size_t num_left(std::span<const double> weights, const Sampling& sampling) {
  std::size_t left = weights.size();
  if (sampling.top_k > 0) left = std::min(left, static_cast<std::size_t>(sampling.top_k));
  if (sampling.top_p < 1) {
    const double share =
        sampling.top_p *
        std::accumulate(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(left), 0.0);
    std::size_t needed = 0;
    for (double sum = 0; needed < left && sum < share; ++needed) sum += weights[needed];
    left = std::max<std::size_t>(needed, 1);
  }
  while (left > 1 && weights[left - 1] < sampling.min_p * weights[0]) --left;
  return left;
}

}  // namespace

void validate(const Sampling& sampling) {
  const auto need = [](bool holds, const char* option, double value, const char* wants) {
    if (!holds) throw UserError(cat(option, " ", value, ": wants ", wants));
  };
  need(std::isfinite(sampling.temperature) && sampling.temperature >= 0, "--temperature",
       sampling.temperature, "0 or more");
  need(sampling.top_k >= 0, "--top-k", static_cast<double>(sampling.top_k), "0 or more");
  need(sampling.top_p > 0 && sampling.top_p <= 1, "--top-p", sampling.top_p, "more than 0, at most 1");
  need(sampling.min_p >= 0 && sampling.min_p <= 1, "--min-p", sampling.min_p, "a number from 0 to 1");
  need(std::isfinite(sampling.repetition_penalty) && sampling.repetition_penalty > 0, "--repetition-penalty",
       sampling.repetition_penalty, "more than 0");
}

Token pick(std::span<float> logits, std::span<const Token> before, const Sampling& sampling, double uniform) {
  if (sampling.repetition_penalty != 1) penalize(logits, before, sampling.repetition_penalty);
  if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); }))
    throw UserError(
        "the model's logits are not finite: its weights are damaged, or the precision is too narrow");
  const float most = std::ranges::max(logits);
  if (sampling.temperature == 0) return static_cast<Token>(std::ranges::find(logits, most) - logits.begin());
  std::vector<Token> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), Token{0});
  const auto is_likelier = [&](Token a, Token b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  if (sampling.top_k > 0 && sampling.top_k < std::ssize(tokens)) {
    std::ranges::partial_sort(tokens, tokens.begin() + sampling.top_k, is_likelier);
    tokens.resize(static_cast<std::size_t>(sampling.top_k));
  } else if (sampling.top_p < 1 || sampling.min_p > 0) {
    std::ranges::sort(tokens, is_likelier);
  }
  std::vector<double> weights;
  weights.reserve(tokens.size());
  for (const Token token : tokens)
    weights.push_back(std::exp((logits[static_cast<std::size_t>(token)] - most) / sampling.temperature));
  const std::size_t left = num_left(weights, sampling);
  double rest =
      uniform * std::accumulate(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(left), 0.0);
  for (std::size_t i = 0; i + 1 < left; ++i)
    if ((rest -= weights[i]) < 0) return tokens[i];
  return tokens[left - 1];
}

}  // namespace tessera::generate
