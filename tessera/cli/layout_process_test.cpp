// Layouts on real processes: four ranks over sockets lose as four threads do.
#include <gtest/gtest.h>

#include <functional>

#include "tessera/cli/testing/binary_fixture.hpp"
#include "tessera/program/schedule/registry.hpp"

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

// Every schedule with one of the layouts, in turns.
void for_each_schedule(
    const std::function<void(const std::string& word, bool is_virtual, std::size_t turn)>& act) {
  std::size_t turn = 0;
  for (const program::ScheduleEntry& entry : program::kSchedules)
    if (!entry.traits.is_delayed) act(std::string(entry.name), entry.num_virtual != 1, turn++);
}

TEST_F(LayoutProcesses, OfPipelinesLoseAsThreadsDo) {
  for_each_schedule([&](const std::string& schedule, bool is_virtual, std::size_t turn) {
    const std::string uneven = is_virtual ? "1,2,1,1,1,2,1,1" : "1,4,2,3";
    const std::vector<std::string> layouts = {
        "layout.pp=4 model.layers=6 training.global_batch=9",
        "layout.pp=2 layout.dp_replicate=2 model.layers=4 training.global_batch=9",
        cat("layout.pp=4 model.layers=8 training.global_batch=4 model.tied_embeddings=true layout.stages=",
            uneven)};
    expect_same_losses(cat("layout.schedule=", schedule, " ", layouts[turn % layouts.size()]));
  });
}

TEST_F(LayoutProcesses, OfShardedAndRecomputedAndOffloadedStatesLoseAsThreadsDo) {
  const std::vector<std::string> layouts = {
      "layout.zero=1 layout.recompute=full layout.offload=optimizer,values training.global_batch=5",
      "layout.zero=2 layout.reduce_every=2 layout.recompute=selective model.tied_embeddings=true "
      "training.global_batch=10",
      cat("layout.zero=3 layout.prefetch=2 layout.offload=optimizer,parameters layout.offload_folder=",
          path("."), " training.global_batch=9")};
  for_each_schedule([&](const std::string& schedule, bool, std::size_t turn) {
    expect_same_losses(cat("layout.schedule=", schedule, " layout.pp=2 layout.dp_shard=2 model.layers=4 ",
                           layouts[turn % layouts.size()]));
  });
}

}  // namespace
}  // namespace tessera::cli
