// Does the plan predict what ranks hold whose experts get more tokens than others? About 25 s.
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/testing/test_folder.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/memory/memory.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/tensor/arena.hpp"
#include "tessera/train/testing/expert_loads.hpp"

namespace tessera::train {
namespace {

// Values dominate. Each rank is held to the plan for its own load; what is planned are micro-batches of full
// size, the last one too.

TEST(ExpertMemory, OfEveryKindOfLoadIsPredicted) {
  const TestFolder folder;
  tensor::use_arena();
  for (const spec::Layout& layout : expert_layouts())
    for (const LoadCase& c : load_cases()) {
      spec::Run run = load_run(c, layout, folder.path("choices"));
      run.model.sequence = 512;
      run.model.layers = 4, run.model.hidden = 128, run.model.expert_ffn = 192;
      const bool is_even = run.training.global_batch % (layout.dp_shard * run.layout.micro_batch) == 0;
      write_choice_file(run, c.choose);
      std::vector<std::int64_t> counted(4);
      collective::run_ranks(4, [&](const collective::Communicator& communicator) {
        Session session(session_plan(run), communicator, random_source(run.model));
        counted[static_cast<std::size_t>(communicator.rank())] = session.step().at_peak.total();
      });
      for (std::size_t rank = 0; rank < counted.size(); ++rank) {
        std::int64_t most = 0;
        for (std::int64_t micro = 0; micro < run.num_micro_batches(); ++micro)
          most = std::max(most, rows_of(run, c.choose, 0, micro).arriving[rank]);
        const std::int64_t leaving = run.layout.micro_batch * run.model.sequence / run.layout.tp *
                                     run.model.experts_per_token * run.layout.etp;
        spec::Run planned = run;
        planned.layout.expert_load = std::max(static_cast<double>(most), 0.4) / static_cast<double>(leaving);
        const auto program = plan::compile(planned);
        const auto bytes = plan::memory_of(program)[program.tables.class_of_rank[rank]].peak_bytes;
        const double ratio = static_cast<double>(bytes) / static_cast<double>(counted[rank]);
        const std::string name = cat(c.name, ", rank ", rank, ", etp ", layout.etp);
        EXPECT_GE(ratio, 0.97) << name;
        EXPECT_LE(ratio, is_even ? 1.03 : 1.1) << name;
      }
    }
}

}  // namespace
}  // namespace tessera::train
