#include "tessera/plan/expert_loads.hpp"

#include <algorithm>
#include <numeric>

#include "tessera/base/error.hpp"

namespace tessera::plan {

double busiest_share(std::span<const double> tokens_by_expert, std::int64_t ep) {
  const std::size_t held = tokens_by_expert.size() / static_cast<std::size_t>(ep);
  double all = 0, most = 0;
  for (std::size_t first = 0; first + held <= tokens_by_expert.size(); first += held) {
    const auto here = tokens_by_expert.subspan(first, held);
    const double sum = std::accumulate(here.begin(), here.end(), 0.0);
    all += sum, most = std::max(most, sum);
  }
  return all > 0 ? most * static_cast<double>(ep) / all : 1;
}

program::Tables under_loads(program::Tables tables, std::span<const double> by_block,
                            const std::function<ModelPlan(double load)>& model_under) {
  TESSERA_CHECK(by_block.size() < tables.units.size(), by_block.size(), " loads of ", tables.units.size(),
                " units");
  for (std::size_t block = 0; block < by_block.size(); ++block) {
    ModelPlan model = model_under(by_block[block]);
    // After the embedding; a block that predicts ahead is in the head.
    tables.units[block + 1] =
        block < model.blocks.size() ? std::move(model.blocks[block]) : std::move(model.head);
  }
  return tables;
}

}  // namespace tessera::plan
