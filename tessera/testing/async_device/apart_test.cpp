// Replicas that make local steps on asynchronous devices: what a CPU computes, with exchanges that wait and
// with those that run beside the next steps. About 3 s.
#include <gtest/gtest.h>

#include <sstream>

#include "tessera/spec/load.hpp"
#include "tessera/testing/async_device/ranks.hpp"
#include "tessera/train/testing/apart.hpp"

namespace tessera::async_device {
namespace {

class ApartOnADevice : public testing::TestWithParam<const char*> {};

TEST_P(ApartOnADevice, ReplicasComeToWhatTheyDoOnACpu) {
  std::vector<std::string> overrides = {"model.hidden=32",         "model.sequence=16",
                                        "layout.micro_batch=1",    "layout.precision=fp64",
                                        "training.steps=7",        "training.local_steps=3",
                                        "training.global_batch=8", "training.outer_optimizer=nesterov"};
  std::istringstream words(GetParam());
  for (std::string word; words >> word;) overrides.push_back(word);
  const spec::Run run = spec::load("examples/tiny.toml", overrides);
  const auto source = train::random_source(run.model);
  for (const bool one_queue : {false, true}) {
    const auto there = train::train_apart(run, source, {}, [&](int ranks, const auto& body) {
      run_ranks({.one_queue = one_queue}, ranks, body);
    });
    const auto here = train::train_apart(run, source);
    ASSERT_EQ(there.losses.size(), here.losses.size());
    for (std::size_t i = 0; i < here.losses.size(); ++i)
      EXPECT_NEAR(there.losses[i], here.losses[i], 1e-10 * here.losses[i]) << i;
    EXPECT_EQ(there.exchanged_bytes, here.exchanged_bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, ApartOnADevice,
    testing::Values("layout.dp=2", "layout.dp=2 training.outer_delay=2",
                    "layout.dp_replicate=2 layout.dp_shard=2 layout.zero=1 training.outer_delay=1",
                    "layout.dp_replicate=2 layout.dp_shard=2 layout.zero=3 training.outer_delay=2",
                    "layout.dp_replicate=2 layout.pp=2 training.outer_delay=1",
                    "layout.dp_replicate=2 layout.tp=2 layout.offload=optimizer training.outer_delay=1"));

}  // namespace
}  // namespace tessera::async_device
