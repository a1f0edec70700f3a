#include "tessera/job/start/needs.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tessera/job/start/start.hpp"

namespace tessera::job {
namespace {

// The most checkpoints that lie on the disk at a time, by making each save of the run one by one.
std::int64_t most_at_a_time(const spec::Checkpoint& rule, std::int64_t steps,
                            std::vector<std::int64_t> on_disk) {
  const auto begun_with = std::ssize(on_disk);
  std::int64_t most = 0;
  const std::int64_t every = rule.every > 0 ? rule.every : steps;
  for (std::int64_t step = (on_disk.empty() ? 0 : on_disk.back()) + 1; step <= steps; ++step) {
    if (step % every != 0 && step != steps) continue;
    on_disk.push_back(step);
    most = std::max<std::int64_t>(most, std::ssize(on_disk) - begun_with);
    if (rule.keep_last == 0) continue;
    for (std::int64_t i = std::ssize(on_disk) - rule.keep_last - 1; i >= 0; --i)
      if (rule.keep_every == 0 || on_disk[static_cast<std::size_t>(i)] % rule.keep_every != 0)
        on_disk.erase(on_disk.begin() + i);
  }
  return most;
}

TEST(Needs, CountTheCheckpointsThatLieOnTheDiskAtATime) {
  for (const std::int64_t every : {0, 1, 2, 3, 5})
    for (const std::int64_t last : {0, 1, 2, 4})
      for (const std::int64_t kept : {0, 2, 3, 6})
        for (const std::int64_t steps : {1, 2, 7, 12, 30})
          for (const std::vector<std::int64_t>& existing :
               {std::vector<std::int64_t>(), {4}, {5, 6}, {10, 11, 12}}) {
            spec::Checkpoint rule{.every = every, .keep_last = last, .keep_every = kept};
            EXPECT_EQ(num_new_checkpoints(rule, steps, existing), most_at_a_time(rule, steps, existing))
                << "every " << every << ", keep_last " << last << ", keep_every " << kept << ", steps "
                << steps << ", existing up to " << (existing.empty() ? 0 : existing.back());
          }
  EXPECT_EQ(num_new_checkpoints({.every = 0, .every_minutes = 0}, 100, {}), 0);
  EXPECT_EQ(num_new_checkpoints({.every = 1, .keep_last = 2}, std::int64_t{1} << 60, {}), 3);
}

TEST(Needs, OfAllRanksAreThoseOfTheFullestTimesTheirNumber) {
  spec::Run run;
  const Needs one = needs_of(run, 0, 1);
  EXPECT_EQ(one.num_ranks, 1);
  EXPECT_EQ(one.memory_bytes, one.process_bytes);
  EXPECT_EQ(one.checkpoint_bytes % 12, 0) << "fp32 weights and two moments";
  run.layout.dp_replicate = 4;
  const Needs four = needs_of(run, 0, 4), half = needs_of(run, 2, 2);
  EXPECT_EQ(four.checkpoint_bytes, one.checkpoint_bytes);
  EXPECT_EQ(four.memory_bytes, 4 * four.process_bytes);
  EXPECT_EQ(half.memory_bytes, 2 * four.process_bytes);
  EXPECT_GT(four.open_files, one.open_files);
}

TEST(Needs, TheFirstScreenSaysWhereWhatRunsAndHowMuchItTakes) {
  spec::Run run;
  run.layout.dp_replicate = 2;
  Outlook outlook{.needs = {.num_ranks = 2,
                            .memory_bytes = 300 << 20,
                            .process_bytes = 150 << 20,
                            .checkpoint_bytes = 5 << 20},
                  .new_checkpoints = 3,
                  .free_memory_bytes = 4e9};
  const Start start{.num_ranks = 2};
  EXPECT_EQ(first_screen(outlook, run, start, "tiny", "runs/tiny"),
            "tiny: 2 ranks on this host, output in runs/tiny\n"
            "memory: at most 150 MiB a rank, 300 MiB of 3.7 GiB free; disk: 3 checkpoints, 15.0 MiB\n");
  outlook.needs.step_flops = 1e14;  // long enough for the rate to be measured
  EXPECT_NE(first_screen(outlook, run, start, "tiny", "runs/tiny").find("GFLOP/s measured here)\n"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::job
