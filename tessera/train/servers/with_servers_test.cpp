// Workers that do not wait for each other, as threads: whatever order their pushes came in, a replay of the
// log has the same weights bit for bit, and a log that was changed has not. About 4 s.
#include "tessera/train/servers/with_servers.hpp"
#include "tessera/base/testing/one_in.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tessera/base/error.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/train/servers/replay.hpp"
#include "tessera/train/testing/small_runs.hpp"

namespace tessera::train {
namespace {

using spec::Layout;
using spec::Updates;

class WithServers : public ::testing::Test {
 protected:
  WithServers() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::ofstream text(folder_ + "/text");
    for (int i = 0; i < 4000; ++i) text << "And it came to pass in the day " << i * i << " ";
  }
  ~WithServers() override { std::filesystem::remove_all(folder_); }

  spec::Run run_of(Layout layout) const {
    spec::Run run = small_run(1);
    layout.micro_batch = 1;
    run.layout = layout;
    run.model.kv_heads = run.model.heads;
    run.model.vocab = 256;
    run.data.path = folder_ + "/text";
    run.training.global_batch = 2 * layout.dp();
    run.training.steps = 5;
    run.cluster.transport = spec::Transport::threads;
    return run;
  }

  Summary train_on_threads(const spec::Run& run) const {
    Summary out;
    collective::run_ranks(static_cast<int>(run.layout.ranks()), [&](const collective::Communicator& all) {
      const auto mine = train_with_servers(run, all,
                                           {.name = "small",
                                            .folder = folder_,
                                            .trace = "",
                                            .checkpoints = folder_ + "/checkpoints",
                                            .lines = false});
      if (mine.is_told_here) out = mine;
    });
    return out;
  }

  std::string log() const { return folder_ + "/" + kUpdateLogName; }
  UpdateHistory history() const { return read_update_log(log()); }

  std::string folder_ = cat(::testing::TempDir(), "with-servers-", ::getpid());
};

TEST_F(WithServers, AreReplayedBitForBit) {
  OneIn takes(3);
  for (const Layout& layout :
       {Layout{.servers = 1, .updates = Updates::asynchronous},
        Layout{.dp_shard = 4, .servers = 3, .updates = Updates::asynchronous},
        Layout{.dp_shard = 3, .servers = 2, .updates = Updates::bounded, .staleness = 2},
        Layout{.pp = 2, .dp_shard = 2, .servers = 1, .updates = Updates::bounded, .tp = 2},
        Layout{.pp = 2,
        .dp_shard = 2,
        .servers = 2,
        .updates = Updates::asynchronous,
        .recompute = spec::Recompute::full,
        .precision = spec::Precision::bf16}}) {
    for (const bool is_tied : {false, true}) {
      if (!takes()) continue;
      std::filesystem::remove_all(folder_ + "/checkpoints");
      spec::Run run = run_of(layout);
      run.model.tied_embeddings = is_tied;
      run.training.clip_norm = is_tied ? 0.5 : 0;
      if (is_tied) run.training.optimizer = spec::Optimizer::sgd;
      const auto summary = train_on_threads(run);
      EXPECT_EQ(summary.steps, 5 * layout.dp());
      const auto replayed = replay(run, history());
      EXPECT_TRUE(replayed.passed()) << to_text(replayed);
      EXPECT_EQ(replayed.pushes, 5 * layout.dp());
    }
  }
}

TEST_F(WithServers, AreNotReplayedFromAnotherLog) {
  const spec::Run run = run_of({.dp_shard = 3, .servers = 1, .updates = Updates::asynchronous});
  train_on_threads(run);
  const UpdateHistory right = history();
  ASSERT_TRUE(replay(run, right).passed());
  UpdateHistory older = right;  // computed with older weights
  older.pushes.back().version -= 2;
  EXPECT_FALSE(replay(run, older).passed());
  UpdateHistory swapped = right;  // in another order
  std::swap(swapped.pushes[6].of, swapped.pushes[7].of);
  EXPECT_FALSE(replay(run, swapped).passed());
  spec::Run other = run;
  other.training.learning_rate *= 1.0001;
  EXPECT_FALSE(replay(other, right).passed());
  other = run;
  other.layout.dp_shard = 2;
  EXPECT_THROW(replay(other, right), UserError);
}

TEST_F(WithServers, GoOnFromACheckpointAndAreReplayedWhole) {
  spec::Run run = run_of({.dp_shard = 2, .servers = 2, .updates = Updates::bounded});
  run.training.warmup_steps = 0;  // the rate must not depend on the number of steps
  run.training.min_learning_rate = run.training.learning_rate;
  train_on_threads(run);
  run.training.steps = 8;
  run.layout.updates = Updates::asynchronous;
  EXPECT_EQ(train_on_threads(run).resumed_after, 5);
  const UpdateHistory whole = history();
  EXPECT_EQ(whole.pushes.size(), 16u);
  const auto replayed = replay(run, whole);
  EXPECT_TRUE(replayed.passed()) << to_text(replayed);
}

// One worker and one server: what one device does, step by step.
TEST_F(WithServers, OfOneWorkerAreATraining) {
  const spec::Run run = run_of({.servers = 1, .updates = Updates::asynchronous});
  train_on_threads(run);
  spec::Run alone = run;
  alone.layout.servers = 0;
  alone.layout.updates = Updates::synchronous;
  collective::run_ranks(1, [&](const collective::Communicator& one) {
    Session session(session_plan(alone), one, corpus_source(alone.data, alone.model));
    for (const Push& push : history().pushes) EXPECT_EQ(session.step().loss, push.loss);
  });
}

TEST_F(WithServers, AreRefusedALogThatIsNone) {
  const auto refuses = [&](const std::string& text) {
    std::ofstream(log()) << text;
    EXPECT_THROW(history(), UserError) << text;
  };
  const std::string begin = "{\"begins_after\": 0, \"workers\": 2}\n",
                    first = "{\"step\": 1, \"worker\": 0, \"worker_step\": 1, \"version\": 0}\n";
  refuses("");
  refuses("no JSON\n");
  refuses(begin + "{\"step\": 2, \"worker\": 0, \"worker_step\": 1, \"version\": 0}\n");
  refuses(begin + "{\"step\": 1, \"worker\": 2, \"worker_step\": 1, \"version\": 0}\n");
  refuses(begin + "{\"step\": 1, \"worker\": -1, \"worker_step\": 1, \"version\": 0}\n");
  refuses(begin + "{\"step\": 1, \"worker\": 0, \"worker_step\": 1, \"version\": 1}\n");
  refuses(begin + first + "{\"step\": 2, \"missing_from\": 2}\n");
  refuses(begin + first + begin);
  refuses(begin + std::string(200, '['));
  std::ofstream(log()) << begin + first + "{\"ends_after\": 1, \"bits\": \"00\"}\n";
  EXPECT_EQ(history().bits, "00");
  EXPECT_EQ(history().pushes.size(), 1u);
}

// By the pushes that its weights had seen, of the workers that were still there.
TEST_F(WithServers, AreAheadByTheLog) {
  const auto push = [](int number, int worker, int version) {
    return cat("{\"step\": ", number, ", \"worker\": ", worker,
               ", \"worker_step\": 1, \"version\": ", version, "}\n");
  };
  const std::string begin = "{\"begins_after\": 0, \"workers\": 3}\n";
  const std::string one_only = push(1, 0, 0) + push(2, 0, 1) + push(3, 0, 2);
  const auto ahead = [&](const std::string& text) {
    std::ofstream(log()) << begin + text;
    return history().most_ahead;
  };
  EXPECT_EQ(ahead(push(1, 0, 0) + push(2, 1, 0) + push(3, 2, 0)), 0);
  EXPECT_EQ(ahead(one_only), 2);
  EXPECT_EQ(ahead(push(1, 0, 0) + push(2, 1, 0) + push(3, 0, 1)), 1);
  EXPECT_EQ(ahead("{\"lost_after\": 0, \"worker\": 1}\n{\"lost_after\": 0, \"worker\": 2}\n" + one_only), 0);
}

}  // namespace
}  // namespace tessera::train
