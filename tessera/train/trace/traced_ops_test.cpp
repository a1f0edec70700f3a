#include "tessera/train/trace/traced_ops.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tessera/base/error.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/program/passes/generate.hpp"
#include "tessera/program/testing/examples.hpp"
#include "tessera/train/trace/tracer.hpp"

namespace tessera::train {
namespace {

using program::OpKind;
using testing::HasSubstr;

metrics::Event event(const std::string& name, const std::string& what, std::int64_t step, double start,
                     double end, metrics::Record more = {}) {
  metrics::Event out{name, 0, "compute", start, end - start, {{"step", step}, {"what", what}}};
  out.args.insert(out.args.end(), more.begin(), more.end());
  return out;
}

TEST(TracedOps, SayKindSegmentSizeAndTime) {
  const auto ops =
      ran_ops(std::vector{event("3W1", "weight half", 2, 5, 7, {{"segment", 3}, {"bytes", 96}})}, "t");
  ASSERT_EQ(ops.size(), 1u);
  EXPECT_EQ(ops[0].kind, (simulate::OpClass{OpKind::backward_weight, 3, 1}));
  EXPECT_EQ(ops[0].size, 96);
  EXPECT_EQ(ops[0].span, (program::Span{5, 7}));
}

TEST(TracedOps, ASendAndItsReceiveAreOfOneKind) {
  const auto ops = ran_ops(std::vector{event("<1.0", "receive", 2, 0, 1, {{"ranks", 2}}),
                                       event(">1.0", "send", 2, 0, 1, {{"ranks", 2}})},
                           "t");
  EXPECT_EQ(ops[0].kind, ops[1].kind);
}

TEST(TracedOps, TheFirstStepCountsOnlyWhenThereIsNoOther) {
  const auto first = event("0F0", "forward", 1, 0, 9), second = event("0F0", "forward", 2, 9, 10);
  EXPECT_EQ(ran_ops(std::vector{first, second}, "t").size(), 1u);
  EXPECT_EQ(ran_ops(std::vector{first, second}, "t")[0].step, 2);
  EXPECT_EQ(ran_ops(std::vector{first}, "t").size(), 1u);
}

TEST(TracedOps, AnEventOfAnotherProgramIsRefusedByName) {
  try {
    ran_ops(std::vector{event("malloc", "allocation", 1, 0, 1)}, "other.json");
    FAIL() << "nothing was thrown";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("trace 'other.json': event 'malloc'"));
  }
}

// What the tracer writes prices every op of the program that it traced.
TEST(TracedOps, ATraceOfARunIsAProfileOfItsProgram) {
  const auto program = program::data_parallel(program::example_tables({.dp = 1}), {});
  const auto path = (std::filesystem::temp_directory_path() / "traced_ops_test.json").string();
  Tracer tracer(program, 0, path);
  std::vector<engine::OpTime> times;
  for (std::uint32_t i = 0; i < program.classes[0].ops.size(); ++i) times.push_back({i, 1.0 * i, i + 0.5});
  tracer.add(1, times);
  collective::run_ranks(1, [&](const collective::Communicator& alone) { tracer.write(alone); });
  const auto profile = read_profile(std::vector{path});
  std::filesystem::remove(path);
  for (const auto& op : program.classes[0].ops)
    EXPECT_DOUBLE_EQ(profile.cost(op, program.tables).phases.at(0).seconds, 0.5)
        << program::word(op, program.tables);
}

}  // namespace
}  // namespace tessera::train
