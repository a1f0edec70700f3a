// What a device holds at most, with memory that goes back late, against what the plan says. Takes about 15 s.
#include <gtest/gtest.h>

#include <sstream>

#include "tessera/plan/compile.hpp"
#include "tessera/plan/memory/memory.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/testing/async_device/ranks.hpp"
#include "tessera/train/session.hpp"

namespace tessera::async_device {
namespace {

class PeakOnADevice : public testing::TestWithParam<const char*> {};

TEST_P(PeakOnADevice, IsThatOfThePlan) {
  std::vector<std::string> overrides = {"model.hidden=64",      "model.sequence=64",    "model.layers=4",
                                        "model.ffn=192",        "model.heads=4",        "model.kv_heads=2",
                                        "layout.micro_batch=2", "layout.precision=bf16"};
  std::istringstream words(GetParam());
  for (std::string word; words >> word;) overrides.push_back(word);
  spec::Run run = spec::load("examples/tiny.toml", overrides);
  run.training.global_batch = run.layout.dp() * 4 * 2;
  auto program = plan::compile(run);
  const auto slots = plan::place_in_slots(program);
  const auto planned = plan::memory_of(program, {slots, 0});
  Findings found;
  run_ranks(
      {}, static_cast<int>(run.layout.ranks()),
      [&](const collective::Communicator& communicator) {
        train::Session session(train::session_plan(run), communicator, train::random_source(run.model));
        for (int i = 0; i < 2; ++i) session.step();
      },
      &found);
  for (std::size_t rank = 0; rank < found.counts.size(); ++rank) {
    const auto plan = planned[program.tables.class_of_rank[rank]].peak_bytes;
    EXPECT_NEAR(static_cast<double>(found.counts[rank].most_bytes_held) / static_cast<double>(plan), 1, 0.03)
        << "rank " << rank << ": " << plan << " planned";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, PeakOnADevice,
    testing::Values("layout.dp=2 layout.zero=0", "layout.dp=2 layout.zero=1", "layout.dp=2 layout.zero=2",
                    "layout.dp=2 layout.zero=3", "layout.dp=2 layout.zero=3 layout.recompute=full",
                    "layout.pp=2 layout.schedule=1f1b", "layout.pp=2 layout.schedule=gpipe",
                    "layout.pp=2 layout.schedule=zb-h1",
                    "layout.pp=4 layout.schedule=1f1b layout.recompute=full",
                    "layout.pp=2 layout.dp=2 layout.zero=3", "layout.tp=2",
                    "layout.tp=2 layout.dp=2 layout.zero=3", "layout.cp=2", "layout.cp=2 layout.tp=2"));

}  // namespace
}  // namespace tessera::async_device
