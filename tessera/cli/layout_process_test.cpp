// Layouts on real processes: four ranks over sockets lose as four threads do.
#include <gtest/gtest.h>

#include "tessera/cli/testing/binary_fixture.hpp"
#include "tessera/spec/choice_names.hpp"

namespace tessera::cli {
namespace {

class LayoutProcesses : public Binary {
 protected:
  std::vector<double> losses_over(const char* transport, const std::string& overrides) const {
    const Outcome outcome = tessera(cat(
        "train ", path("run.toml"), " --out ", path("out"), " layout.precision=fp64 layout.micro_batch=1 ",
        "training.steps=3 cluster.peak_tflops=1 cluster.transport=", transport, " ", overrides));
    EXPECT_EQ(outcome.code, 0) << overrides << "\n" << outcome.out;
    return losses();
  }
  void expect_same_losses(const std::string& overrides) const {
    const auto processes = losses_over("sockets", overrides), threads = losses_over("threads", overrides);
    ASSERT_EQ(processes.size(), 3u) << overrides;
    EXPECT_EQ(processes, threads) << overrides;
  }
};

using spec::Schedule;
constexpr Schedule kSchedules[] = {"gpipe"_schedule, "1f1b"_schedule, "interleaved"_schedule,
                                   "zb-h1"_schedule, "zb-v"_schedule, "dualpipe-v"_schedule,
                                   "bfs"_schedule,   "auto"_schedule};

TEST_F(LayoutProcesses, OfPipelinesLoseAsThreadsDo) {
  for (const auto schedule : kSchedules) {
    const bool is_virtual = spec::Layout{.schedule = schedule}.num_virtual() == 2;
    const std::string uneven = is_virtual ? "1,2,1,1,1,2,1,1" : "1,4,2,3";
    const std::vector<std::string> layouts = {
        "layout.pp=4 model.layers=6 training.global_batch=9",
        "layout.pp=2 layout.dp_replicate=2 model.layers=4 training.global_batch=9",
        cat("layout.pp=4 model.layers=8 training.global_batch=4 model.tied_embeddings=true layout.stages=",
            uneven)};
    for (const std::string& layout : layouts) {
      const std::string overrides = cat("layout.schedule=", spec::word(schedule), " ", layout);
      expect_same_losses(overrides);
    }
  }
}

TEST_F(LayoutProcesses, OfShardedAndRecomputedAndOffloadedStatesLoseAsThreadsDo) {
  const std::vector<std::string> layouts = {
      "layout.zero=1 layout.recompute=full layout.offload=optimizer,values training.global_batch=5",
      "layout.zero=2 layout.reduce_every=2 layout.recompute=selective model.tied_embeddings=true "
      "training.global_batch=10",
      cat("layout.zero=3 layout.prefetch=2 layout.offload=optimizer,parameters layout.offload_folder=",
          path("."), " training.global_batch=9")};
  for (const auto schedule : kSchedules)
    for (const std::string& layout : layouts)
      expect_same_losses(cat("layout.schedule=", spec::word(schedule),
                             " layout.pp=2 layout.dp_shard=2 model.layers=4 ", layout));
}

}  // namespace
}  // namespace tessera::cli
