#include "tessera/draw/experts/load_history.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "tessera/base/error.hpp"

namespace tessera::draw {
namespace {

LoadColumn merged(LoadColumn a, LoadColumn b) {
  if (a.num_steps == 0) return b;
  if (b.num_steps == 0) return a;
  for (std::size_t layer = 0; layer < a.tokens.size(); ++layer)
    std::ranges::transform(a.tokens[layer], b.tokens[layer], a.tokens[layer].begin(), std::plus());
  const auto steps = static_cast<double>(a.num_steps), more = static_cast<double>(b.num_steps);
  a.num_steps += b.num_steps;
  a.largest = {.worst = std::max(a.largest.worst, b.largest.worst),
               .mean = (a.largest.mean * steps + b.largest.mean * more) / (steps + more)};
  return a;
}

}  // namespace

std::vector<double> loads(const std::vector<double>& tokens) {
  const double sum = std::accumulate(tokens.begin(), tokens.end(), 0.0);
  std::vector<double> out(tokens.size());
  if (sum > 0)
    std::ranges::transform(tokens, out.begin(),
                           [mean = sum / static_cast<double>(tokens.size())](double x) { return x / mean; });
  return out;
}

void LoadHistory::begin(std::int64_t step, const std::vector<LayerTokens>& layers) {
  if (layers.size() > kMostLayers)
    throw UserError(
        cat("the run has ", layers.size(), " layers with experts; up to ", kMostLayers, " can be drawn"));
  for (const LayerTokens& each : layers) {
    num_experts_ = std::max(num_experts_, each.tokens.size());
    worst_.push_back({.layer = each.layer});
  }
  grid_ = panel_grid(layers.size(), num_experts_);
  first_step_ = step;
}

LargestLoads LoadHistory::largest_loads(std::int64_t step, const std::vector<LayerTokens>& layers) {
  LargestLoads out;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const std::vector<double> all = loads(layers[layer].tokens);
    const auto most = std::ranges::max_element(all);
    // As in the metrics, a layer that no token chose is even.
    const double load = *most > 0 ? *most : 1;
    if (load > worst_[layer].load)
      worst_[layer] = {load, step, layers[layer].layer, static_cast<std::size_t>(most - all.begin())};
    out.worst = std::max(out.worst, load);
    out.mean += load / static_cast<double>(layers.size());
  }
  return out;
}

void LoadHistory::add(std::int64_t step, const std::vector<LayerTokens>& layers) {
  if (columns_.empty()) begin(step, layers);
  TESSERA_CHECK(layers.size() == worst_.size() && (columns_.empty() || step > last_step_), "step ", step,
                " after ", last_step_, ", of ", layers.size(), " layers");
  of_last_step_ = largest_loads(step, layers);
  LoadColumn column{.num_steps = 1, .largest = of_last_step_};
  for (const LayerTokens& each : layers) column.tokens.push_back(each.tokens);
  const auto place = [&] { return static_cast<std::size_t>((step - first_step_) / steps_per_column_); };
  while (place() >= grid_.most_columns) merge_pairs();
  columns_.resize(place() + 1);
  columns_.back() = merged(std::move(columns_.back()), std::move(column));
  last_step_ = step;
  ++num_steps_;
}

void LoadHistory::merge_pairs() {
  std::vector<LoadColumn> out;
  for (std::size_t i = 0; i < columns_.size(); i += 2)
    out.push_back(i + 1 < columns_.size() ? merged(std::move(columns_[i]), std::move(columns_[i + 1]))
                                          : std::move(columns_[i]));
  columns_ = std::move(out);
  steps_per_column_ *= 2;
}

const WorstLoad& LoadHistory::worst() const {
  return *std::ranges::max_element(worst_, {}, &WorstLoad::load);
}

}  // namespace tessera::draw
