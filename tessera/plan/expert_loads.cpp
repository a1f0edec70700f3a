#include "tessera/plan/expert_loads.hpp"

#include <algorithm>
#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/families/families.hpp"

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

program::Tables under_loads(const spec::Run& run, program::Tables tables, std::span<const double> by_block) {
  TESSERA_CHECK(std::ssize(by_block) == run.model.blocks(), by_block.size(), " loads of ", run.model.blocks(),
                " blocks");
  spec::Run loaded = run;
  for (std::size_t block = 0; block < by_block.size(); ++block) {
    loaded.layout.expert_load = by_block[block];
    Blueprint model = families::blueprint(loaded);
    // After the embedding; a block that predicts ahead is in the head.
    tables.units[block + 1] =
        block < model.blocks.size() ? std::move(model.blocks[block]) : std::move(model.head);
  }
  return tables;
}

}  // namespace tessera::plan
