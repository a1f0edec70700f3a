// What goes across steps, on asynchronous devices whose communicators share a queue: replicas that make local
// steps come to what they do on a CPU, and compressed traffic to the same rounding on one device. About 12 s.
#include <gtest/gtest.h>

#include <sstream>

#include "tessera/spec/load.hpp"
#include "tessera/testing/async_device/ranks.hpp"
#include "tessera/train/testing/apart.hpp"
#include "tessera/verify/verify.hpp"

namespace tessera::async_device {
namespace {

spec::Run small_in_fp64(const char* keys, std::vector<std::string> overrides) {
  for (const char* common : {"model.hidden=32", "model.sequence=16", "layout.micro_batch=1",
                             "layout.precision=fp64", "training.global_batch=8"})
    overrides.emplace_back(common);
  std::istringstream words(keys);
  for (std::string word; words >> word;) overrides.push_back(word);
  return spec::load("examples/tiny.toml", overrides);
}

void with_one_queue(int ranks, const std::function<void(const collective::Communicator&)>& body) {
  run_ranks({.one_queue = true}, ranks, body);
}

class ApartOnADevice : public testing::TestWithParam<const char*> {};

TEST_P(ApartOnADevice, ReplicasComeToWhatTheyDoOnACpu) {
  const spec::Run run = small_in_fp64(
      GetParam(), {"training.steps=7", "training.local_steps=3", "training.outer_optimizer=nesterov"});
  const auto source = train::random_source(run.model);
  const auto there = train::train_apart(run, source, {}, with_one_queue),
             here = train::train_apart(run, source);
  ASSERT_EQ(there.losses.size(), here.losses.size());
  for (std::size_t i = 0; i < here.losses.size(); ++i)
    EXPECT_NEAR(there.losses[i], here.losses[i], 1e-10 * here.losses[i]) << i;
  EXPECT_EQ(there.exchanged_bytes, here.exchanged_bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, ApartOnADevice,
    testing::Values("layout.dp=2", "layout.dp=2 training.outer_delay=2",
                    "layout.dp_replicate=2 layout.dp_shard=2 layout.zero=1 training.outer_delay=1",
                    "layout.dp_replicate=2 layout.dp_shard=2 layout.zero=3 training.outer_delay=2",
                    "layout.dp_replicate=2 layout.pp=2 training.outer_delay=1",
                    "layout.dp_replicate=2 layout.tp=2 layout.offload=optimizer training.outer_delay=1"));

class CompressedOnADevice : public testing::TestWithParam<const char*> {};

TEST_P(CompressedOnADevice, TrafficIsRoundedAsOneDeviceRoundsIt) {
  train::References references;
  const auto found = train::verify_as_it_is(small_in_fp64(GetParam(), {}), references, {}, with_one_queue);
  EXPECT_TRUE(found.passed()) << to_text(found);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, CompressedOnADevice,
    testing::Values("layout.dp=2 layout.compress_gradients=bf16",
                    "layout.dp=2 layout.zero=3 layout.compress_gradients=int8 layout.compress_weights=int8",
                    "layout.dp_replicate=2 layout.dp_shard=2 layout.zero=1 layout.compress_gradients=int8 "
                    "layout.compress_weights=bf16",
                    "layout.dp=2 layout.zero=1 layout.compress_gradients=powersgd",
                    "layout.dp=2 layout.pp=2 layout.overlap_steps=true layout.compress_gradients=powersgd"));

}  // namespace
}  // namespace tessera::async_device
