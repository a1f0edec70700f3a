#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/plan/compile.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/ir/waits.hpp"
#include "tessera/train/testing/small_runs.hpp"

namespace tessera::train {
namespace {

// Rank 0 sends what its embedding made, rank 1 goes on with that instead of its own.
program::Program with_transfer(const spec::Run& run) {
  program::Program program = plan::compile(run);
  program.classes.resize(2, program.classes[0]);
  program.tables.class_of_rank = {0, 1};
  const auto insert = [&](std::size_t rank_class, program::OpKind what, std::int16_t hop) {
    auto& ops = program.classes[rank_class].ops;
    const auto place = std::ranges::find_if(
        ops, [&](const program::Op& op) { return program::word(op, program.tables) == "1F0"; });
    program::Op op;
    op.what = what;
    op.micro = 0;
    op.along = 0;
    op.hop = hop;
    ops.insert(place, op);
    program::build_waits(program.classes[rank_class], program.tables);
  };
  insert(0, program::OpKind::send, 1);
  insert(1, program::OpKind::receive, -1);
  return program;
}

double first_loss(const spec::Run& run, const Source& source, const program::Program* program) {
  double loss = 0;
  collective::run_ranks(2, [&](const collective::Communicator& communicator) {
    Session session(program ? session_plan(run, *program) : session_plan(run), communicator, source);
    const auto report = session.step();
    if (communicator.rank() == 0) loss = report.loss;
  });
  return loss;
}

TEST(Transfer, AReceivedValueTakesThePlaceOfTheRanksOwn) {
  auto run = small_run(2);
  run.training.global_batch = 2;
  run.layout.micro_batch = 1;
  const auto random = random_source(run.model);
  // Rank 1's sample has the tokens of rank 0's, and its own targets.
  const Source borrowed = [&](auto samples, auto tokens, auto targets, auto documents) {
    random(samples, tokens, targets, documents);
    const std::uint64_t first[] = {samples.front() / 2 * 2};
    std::vector<std::int64_t> unused(targets.size());
    random(first, tokens, unused, documents);
  };
  const auto edited = with_transfer(run);
  const double own = first_loss(run, random, nullptr), sent = first_loss(run, random, &edited);
  EXPECT_EQ(sent, first_loss(run, borrowed, nullptr));
  EXPECT_NE(sent, own);
}

}  // namespace
}  // namespace tessera::train
