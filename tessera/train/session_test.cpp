#include "tessera/train/session.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/train/testing/small_runs.hpp"

namespace tessera::train {
namespace {

TEST(Session, AStepThatIsNotFiniteIsTakenOnNoRank) {
  const auto run = small_run(2);
  collective::run_ranks(2, [&](const collective::Communicator& communicator) {
    Session session(session_plan(run), communicator, random_source(run.model));
    session.step();
    std::vector<tensor::Tensor> before;
    for (auto& bucket : session.buckets()) before.push_back(bucket.shard().clone());
    // Only rank 1 computes with a weight that overflows.
    if (communicator.rank() == 1)
      session.buckets()[1].shard().select(0, 0).fill_(std::numeric_limits<float>::infinity());
    const auto report = session.step();
    if (communicator.rank() == 1) session.buckets()[1].shard().select(0, 0).copy_(before[1].select(0, 0));
    EXPECT_FALSE(report.taken) << "rank " << communicator.rank();
    EXPECT_EQ(session.updates(), 1);
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(tensor::bit_equal(before[i], session.buckets()[i].shard()));
    const double rate = session.learning_rate();
    EXPECT_TRUE(session.step().taken);
    EXPECT_EQ(session.learning_rate(), rate) << "the learning rate waits for the update that was not taken";
    EXPECT_EQ(session.updates(), 2);
  });
}

TEST(Session, MovesTheSampleCursorPastAStepThatWasNotTaken) {
  const auto run = small_run(1);
  std::vector<std::uint64_t> firsts;
  const Source source = [&, random = random_source(run.model)](auto samples, auto tokens, auto targets,
                                                               auto documents) {
    if (samples.front() % 8 == 0) firsts.push_back(samples.front());
    random(samples, tokens, targets, documents);
  };
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    Session session(session_plan(run), alone, source);
    const double saved = session.buckets()[1].shard().select(0, 0).item<double>();
    session.buckets()[1].shard().select(0, 0).fill_(NAN);
    EXPECT_FALSE(session.step().taken);
    session.buckets()[1].shard().select(0, 0).fill_(saved);
    EXPECT_TRUE(session.step().taken);
  });
  EXPECT_EQ(firsts, (std::vector<std::uint64_t>{0, 8}));
}

TEST(Session, InitialWeightsAndDataDoNotDependOnTheLayout) {
  const auto one = losses(small_run(1), 3), four = losses(small_run(4), 3);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(four[i] / one[i], 1.0, 1e-5);
}

TEST(Session, Bf16ComputeStaysCloseToFp32) {
  auto run = small_run(2);
  const auto exact = losses(run, 5);
  run.layout.precision = spec::Precision::bf16;
  const auto rounded = losses(run, 5);
  for (std::size_t i = 0; i < exact.size(); ++i)
    EXPECT_NEAR(rounded[i] / exact[i], 1.0, 2e-2) << "step " << i;
  EXPECT_NE(rounded, exact);
}

TEST(Session, AFailingSourceEndsAllRanksWithItsError) {
  const auto run = small_run(3);
  const auto body = [&](const collective::Communicator& communicator) {
    int calls = 0;
    const Source source = [&, random = random_source(run.model)](auto samples, auto tokens, auto targets,
                                                                 auto documents) {
      if (communicator.rank() == 1 && ++calls > 3) throw UserError("the disk is gone");
      random(samples, tokens, targets, documents);
    };
    Session session(session_plan(run), communicator, source);
    for (int step = 0; step < 5; ++step) session.step();
  };
  try {
    collective::run_ranks(3, body);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "the disk is gone");
  }
}

TEST(CorpusSource, RefusesAVocabularyTooSmallForBytes) {
  auto run = small_run(1);
  run.data.path = "corpus/kjv.txt";
  EXPECT_THROW(corpus_source(run.data, run.model), UserError);
}

}  // namespace
}  // namespace tessera::train
