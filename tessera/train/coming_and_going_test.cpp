// Replicas that are lost and come back, beside the same written out with sessions of one device. About 3 s.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/collective/transports/transports.hpp"
#include "tessera/launch/store/key_client.hpp"
#include "tessera/launch/store/key_server.hpp"
#include "tessera/launch/store/peers.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/train/replicas.hpp"
#include "tessera/train/testing/small_runs.hpp"
#include "tessera/train/testing/written_out.hpp"

namespace tessera::train {
namespace {

constexpr std::int64_t kLastOfLost = 3;  // the step after which replica 1 is lost

spec::Run coming_and_going(spec::Layout layout, std::int64_t delay) {
  spec::Run run = small_run(1);
  layout.micro_batch = 1;
  layout.precision = spec::Precision::fp64;
  run.layout = layout;
  run.training.steps = 14;
  run.training.global_batch = 2 * layout.dp_replicate;
  run.training.learning_rate = 1e-3;
  run.training.epsilon = 1e-4;
  run.training.warmup_steps = 0;
  run.training.clip_norm = 0;
  run.training.local_steps = 2;
  run.training.outer_optimizer = spec::OuterOptimizer::nesterov;
  run.training.outer_delay = delay;
  return run;
}

class ComingAndGoing {
 public:
  // `saves`: replicas are made equal at every meeting before it, as for a checkpoint.
  ComingAndGoing(const spec::Run& run, bool saves)
      : run_(run), saves_(saves), ranks_(static_cast<int>(run.layout.ranks())) {}

  // As the launcher and the loop have it, with ranks as threads. Replica 1 comes back when the first has made
  // six steps.
  Losses found() {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks_; ++rank) threads.emplace_back([this, rank] { begin(rank, false); });
    for (int rank = 0; rank < ranks_; ++rank)
      if (run_.layout.replica_of(rank) == 1)
        threads.emplace_back([this, rank] {
          while (steps_of_first_ < 6) std::this_thread::yield();
          begin(rank, true);
        });
    for (std::thread& thread : threads) thread.join();
    return losses_;
  }
  std::int64_t let_in_after() const { return let_in_after_; }

 private:
  void begin(int rank, bool is_newcomer) {
    const tensor::Account account;
    tensor::set_threads(1);
    launch::KeyClient keys(server_.connect({rank, is_newcomer}), rank);
    const auto peers = launch::local_peers(keys);
    const auto connect = [&](const std::string& prefix) {
      return collective::transport(spec::Transport::sockets)
          .connect({keys, *peers}, {.rank = rank, .size = ranks_, .local_rank = rank, .prefix = prefix});
    };
    const auto all = connect("job");
    const collective::Attendance attendance{keys, connect, is_newcomer};
    Replicas replicas(run_, *all, &attendance);
    Session session(session_plan(replicas.run()), replicas.communicator(),
                    replicas.source(random_source(run_.model)));
    if (is_newcomer) ++num_loaded_;
    ASSERT_TRUE(replicas.begin(session));
    const std::int64_t first = session.progress().step + 1;
    if (is_newcomer) let_in_after_ = first - 1;
    const int replica = run_.layout.replica_of(rank);
    const std::int64_t last = replica == 1 && !is_newcomer ? kLastOfLost : run_.training.steps;
    for (std::int64_t step = first; step <= last; ++step) {
      if (replicas.meet_after(step - 1)) {
        // However slow the machine is, replica 1 comes back while there is something to compare.
        while (rank == 0 && step == 9 && num_loaded_ < ranks_ / run_.layout.dp_replicate)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        replicas.sums({0});
        replicas.exchange(step - 1, false);
      }
      const double loss = session.step().loss;
      if (replicas.communicator().rank() == 0) {
        const std::scoped_lock lock(mutex_);
        losses_[{replica, step}] = loss;
      }
      if (rank == 0) {
        steps_of_first_ = step;
        if (step >= 8 && let_in_after_ < 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
      replicas.after_step(step, step == run_.training.steps || (saves_ && replicas.meet_after(step)));
    }
  }

  const spec::Run run_;
  const bool saves_;
  const int ranks_;
  launch::KeyServer server_{{.may_be_lost = [this](int rank) { return run_.layout.replica_of(rank) > 0; }}};
  std::atomic<std::int64_t> steps_of_first_ = 0, let_in_after_ = -1;
  std::atomic<int> num_loaded_ = 0;  // ranks of replica 1 that are about to come back
  std::mutex mutex_;
  Losses losses_;
};

TEST(ReplicasThatComeAndGo, AreLeftOutOfTheMeanAndLetInAgain) {
  for (const spec::Layout& layout :
       {spec::Layout{.dp_replicate = 3}, spec::Layout{.pp = 2, .dp_replicate = 2},
        spec::Layout{.dp_replicate = 2, .dp_shard = 2, .zero = 1}})
    for (const auto& [delay, saves] : {std::pair(0, false), std::pair(1, false), std::pair(0, true)}) {
      const spec::Run run = coming_and_going(layout, delay);
      ComingAndGoing job(run, saves);
      const Losses found = job.found();
      EXPECT_GE(job.let_in_after(), 6);
      EXPECT_LE(job.let_in_after(), 12) << "it came too late to be compared";
      Losses expected;
      collective::run_ranks(1, [&](const collective::Communicator& one) {
        expected = WrittenOut(run, one).losses(kLastOfLost, job.let_in_after());
      });
      ASSERT_EQ(found.size(), expected.size());
      for (const auto& [at, loss] : expected)
        EXPECT_NEAR(found.at(at), loss, 1e-10 * loss)
            << spec::shares_text(layout) << ", delay " << delay << ", saves " << saves << ", replica "
            << at.first << ", step " << at.second;
    }
}

}  // namespace
}  // namespace tessera::train
