// How many tokens chose each expert over a run: step by step or, once there are more steps than a panel has
// room for, the sum of so many steps in each column.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/draw/experts/panel_grid.hpp"

namespace tessera::draw {

// Of one step.
struct LayerTokens {
  std::int64_t layer = 0;
  std::vector<double> tokens;  // by expert
};

// The busiest expert of a layer or of all, in the step in which it was busiest.
struct WorstLoad {
  double load = 0;  // its tokens over the mean of its layer
  std::int64_t step = 0;
  std::int64_t layer = 0;
  std::size_t expert = 0;
  bool operator==(const WorstLoad&) const = default;
};

// The largest load of each layer, of them the largest and the mean.
struct LargestLoads {
  double worst = 0, mean = 0;
  bool operator==(const LargestLoads&) const = default;
};

struct LoadColumn {
  std::int64_t num_steps = 0;               // 0: the file has none of them
  std::vector<std::vector<double>> tokens;  // by layer and expert, summed over the steps
  LargestLoads largest;                     // worst of any step; mean over the steps
  bool operator==(const LoadColumn&) const = default;
};

// Tokens of each expert over their mean; 0 where nothing chose the layer.
std::vector<double> loads(const std::vector<double>& tokens);

class LoadHistory {
 public:
  // Steps ascend, and all have the same layers and experts. Throws UserError when there are too many layers.
  void add(std::int64_t step, const std::vector<LayerTokens>& layers);

  const PanelGrid& grid() const { return grid_; }
  const std::vector<WorstLoad>& worst_of_layers() const { return worst_; }
  const WorstLoad& worst() const;
  std::size_t num_experts() const { return num_experts_; }  // of the layer that has most

  std::int64_t num_steps() const { return num_steps_; }
  std::int64_t first_step() const { return first_step_; }
  std::int64_t last_step() const { return last_step_; }
  const LargestLoads& of_last_step() const { return of_last_step_; }
  std::int64_t steps_per_column() const { return steps_per_column_; }
  const std::vector<LoadColumn>& columns() const { return columns_; }

 private:
  void begin(std::int64_t step, const std::vector<LayerTokens>& layers);
  LargestLoads largest_loads(std::int64_t step, const std::vector<LayerTokens>& layers);
  void merge_pairs();

  PanelGrid grid_;
  std::size_t num_experts_ = 0;
  std::vector<WorstLoad> worst_;
  std::int64_t num_steps_ = 0, first_step_ = 0, last_step_ = 0, steps_per_column_ = 1;
  LargestLoads of_last_step_;
  std::vector<LoadColumn> columns_;
};

}  // namespace tessera::draw
