// What a step costs an accelerator's host, counted on asynchronous devices. Takes about 7 s.
#include <gmock/gmock.h>

#include <map>
#include <sstream>

#include "tessera/spec/load.hpp"
#include "tessera/testing/async_device/ranks.hpp"
#include "tessera/train/saved.hpp"
#include "tessera/train/session.hpp"

namespace tessera::async_device {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// By rank, of so many steps and all that comes before them.
std::vector<Counts> counts_of(const spec::Run& run, int steps) {
  Findings found;
  run_ranks(
      {}, static_cast<int>(run.layout.ranks()),
      [&](const collective::Communicator& communicator) {
        train::Session session(train::session_plan(run), communicator, train::random_source(run.model));
        for (int i = 0; i < steps; ++i) session.step();
      },
      &found);
  return found.counts;
}

// What the host waited for in the steps that only `after` has.
std::map<std::string, std::int64_t> waits_between(const Counts& before, const Counts& after) {
  std::map<std::string, std::int64_t> out;
  for (const auto& [why, count] : after.host_waits) {
    const auto found = before.host_waits.find(why);
    const std::int64_t more = count - (found == before.host_waits.end() ? 0 : found->second);
    if (more != 0) out[why] = more;
  }
  return out;
}

class OnADevice : public testing::TestWithParam<const char*> {};

TEST_P(OnADevice, TheHostWaitsOnceAStepHoweverManyMicroBatchesThereAre) {
  for (const int micro_batches : {2, 4}) {
    std::vector<std::string> overrides = {"model.hidden=32", "model.sequence=16", "layout.micro_batch=1"};
    std::istringstream words(GetParam());
    for (std::string word; words >> word;) overrides.push_back(word);
    spec::Run run = spec::load("examples/tiny.toml", overrides);
    run.training.global_batch = run.layout.dp() * micro_batches;
    const auto before = counts_of(run, 1), after = counts_of(run, 2);
    for (std::size_t rank = 0; rank < before.size(); ++rank) {
      EXPECT_THAT(waits_between(before[rank], after[rank]), ElementsAre(Pair("a stream", 1)))
          << "rank " << rank << ", " << micro_batches << " micro-batches";
      EXPECT_EQ(after[rank].pageable_copies, before[rank].pageable_copies);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, OnADevice,
                         testing::Values("layout.dp=2 layout.zero=0", "layout.dp=2 layout.zero=1",
                                         "layout.dp=2 layout.zero=2", "layout.dp=2 layout.zero=3",
                                         "layout.pp=2 layout.schedule=1f1b",
                                         "layout.pp=2 layout.schedule=zb-v layout.tp=2 model.layers=4",
                                         "layout.tp=2 layout.dp=2 layout.zero=3", "layout.cp=2",
                                         "layout.cp=2 layout.tp=2", "layout.cp=2 data.document_end=a",
                                         "layout.tp=2 model.family=gpt2 model.kv_heads=4",
                                         "layout.tp=2 model.family=gpt2 model.kv_heads=4 model.dropout=0.1",
                                         "layout.dp=2 layout.zero=1 layout.recompute=full "
                                         "layout.offload=optimizer,parameters,values"));

class SnapshotOnADevice : public testing::TestWithParam<const char*> {};

// Also of what steps put away: the last of it may still be on its way to the host then.
TEST_P(SnapshotOnADevice, PassesPinnedMemoryAndComesAfterTheStep) {
  const std::vector<std::string> overrides = {"model.hidden=32", "model.sequence=16", "layout.dp=2",
                                              "layout.zero=2", std::string("layout.offload=") + GetParam()};
  const spec::Run run = spec::load("examples/tiny.toml", overrides);
  const auto pageable_copies = [&](int num_snapshots) {
    Findings found;
    run_ranks(
        {}, 2,
        [&](const collective::Communicator& communicator) {
          train::Session session(train::session_plan(run), communicator, train::random_source(run.model));
          session.step();
          train::Snapshot snapshot;
          for (int i = 0; i < num_snapshots; ++i) snapshot.take(session);
        },
        &found);
    return found.counts[0].pageable_copies;
  };
  EXPECT_EQ(pageable_copies(2), pageable_copies(0));
}

INSTANTIATE_TEST_SUITE_P(Offloads, SnapshotOnADevice, testing::Values("", "optimizer,parameters"));

// Losses of three steps, on rank 0.
std::vector<double> losses_of(const spec::Run& run, const collective::RunRanks& run_ranks) {
  std::vector<double> out;
  run_ranks(static_cast<int>(run.layout.ranks()), [&](const collective::Communicator& communicator) {
    train::Session session(train::session_plan(run), communicator, train::random_source(run.model));
    for (int i = 0; i < 3; ++i) {
      const double loss = session.step().loss;
      if (communicator.rank() == 0) out.push_back(loss);
    }
  });
  return out;
}

collective::RunRanks on_devices(Findings* found = nullptr) {
  return [found](int ranks, const auto& body) { run_ranks({}, ranks, body, found); };
}

std::int64_t launches_of(const char* op, const Findings& found) {
  std::int64_t sum = 0;
  for (const Counts& counts : found.counts) {
    const auto entry = counts.launches.find(op);
    if (entry != counts.launches.end()) sum += entry->second;
  }
  return sum;
}

TEST(OnADevice16Bits, Gpt2ComputesThereWhatItDoesOnACpu) {
  const auto run_of = [](const char* precision) {
    const std::vector<std::string> overrides = {
        "model.family=gpt2", "model.kv_heads=4", "model.hidden=32",
        "model.sequence=16", "layout.tp=2",      std::string("layout.precision=") + precision};
    return spec::load("examples/tiny.toml", overrides);
  };
  // The device first: LibTorch's autograd counts the devices when it is first used.
  const auto there = losses_of(run_of("bf16"), on_devices()),
             on_cpu = losses_of(run_of("bf16"), collective::run_ranks),
             exact = losses_of(run_of("fp64"), collective::run_ranks);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_NEAR(there[i], on_cpu[i], 2e-3) << "step " << i;
    EXPECT_NEAR(there[i], exact[i], 1e-2) << "step " << i;
  }
}

class AttentionOnADevice : public testing::TestWithParam<const char*> {};

TEST_P(AttentionOnADevice, In16BitsComputesWhatACpuDoesAndNeverMakesScores) {
  const auto run_of = [](const char* precision) {
    std::vector<std::string> overrides = {"model.hidden=32", "model.sequence=32",
                                          std::string("layout.precision=") + precision};
    std::istringstream words(GetParam());
    for (std::string word; words >> word;) overrides.push_back(word);
    return spec::load("examples/tiny.toml", overrides);
  };
  Findings narrow, wide;
  const auto there = losses_of(run_of("bf16"), on_devices(&narrow)),
             exact = losses_of(run_of("fp64"), on_devices(&wide)),
             on_cpu = losses_of(run_of("bf16"), collective::run_ranks);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_NEAR(there[i], on_cpu[i], 2e-3) << "step " << i;
    EXPECT_NEAR(there[i], exact[i], 1e-2) << "step " << i;
  }
  EXPECT_GT(launches_of("_scaled_dot_product_flash_attention", narrow), 0);
  EXPECT_GT(launches_of("_scaled_dot_product_flash_attention_backward", narrow), 0);
  // What the scores of plain products are made with.
  EXPECT_EQ(launches_of("bmm.out", narrow), 0);
  EXPECT_GT(launches_of("bmm.out", wide), 0);
}

INSTANTIATE_TEST_SUITE_P(Layouts, AttentionOnADevice,
                         testing::Values("", "data.document_end=a", "layout.cp=2",
                                         "layout.cp=2 layout.cp_heads=2", "layout.cp=2 data.document_end=a",
                                         "layout.cp=4 layout.cp_heads=2 data.document_end=a"));

}  // namespace
}  // namespace tessera::async_device
