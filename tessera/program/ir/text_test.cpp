#include "tessera/program/ir/text.hpp"

#include <gtest/gtest.h>

#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/program/passes/generate.hpp"
#include "tessera/program/testing/examples.hpp"

namespace tessera::program {
namespace {

Tables two_axes() {
  Tables tables = example_tables({});
  tables.axes = {{"pp", 2}, {"dp", 2}};
  tables.axis_sets = {{"dp", {1}}, {"pp", {0}}, {"pp.dp", {0, 1}}};
  return tables;
}

// Any op that can be written down, whether it makes sense or not.
Program random_program(const Tables& tables, std::uint64_t seed) {
  std::uint64_t count = 0;
  const auto below = [&](std::uint64_t bound) { return random_bits(seed, 0, count++) % bound; };
  Program program{tables, {}};
  program.classes.resize(1 + below(3));
  for (Sequence& sequence : program.classes) {
    const std::uint64_t num_ops = below(30);
    for (std::uint64_t at = 0; at < num_ops; ++at) {
      Op op{.what = static_cast<OpKind>(below(kNumOpKinds))};
      op.lane = std::vector<Lane>{kCompute, kCopy, communication(1), communication(1, 1),
                                  communication(2)}[below(5)];
      op.part = static_cast<std::uint16_t>(below(3));
      op.item = static_cast<std::uint32_t>(below(op.what == OpKind::sum ? tables.numbers.size() : 100'000));
      if (is_compute(op.what)) op.micro = static_cast<std::int32_t>(below(1000));
      if (op.what == OpKind::forward && below(2) == 0) op.flags |= kNoTape;
      if (names_cell(op.what)) {
        op.flags |= static_cast<std::uint16_t>(below(kNumCellKinds));
        op.micro = static_cast<std::int32_t>(below(4)) - 1;
      }
      if (below(3) == 0) op.flags |= kEndsSource;
      op.along = static_cast<std::int16_t>(static_cast<int>(below(4)) - 1);
      op.hop = static_cast<std::int16_t>(static_cast<int>(below(5)) - 2);
      op.cost = static_cast<std::uint32_t>(below(3));
      op.first_wait = static_cast<std::uint32_t>(sequence.waits.size());
      op.num_waits = static_cast<std::uint16_t>(below(3));
      for (int i = 0; i < op.num_waits; ++i)
        sequence.waits.push_back(static_cast<std::uint32_t>(below(100)) |
                                 (below(2) == 0 ? kPreviousStep : 0));
      sequence.ops.push_back(op);
    }
  }
  return program;
}

TEST(ProgramText, OfAnyProgramReadsBackEqual) {
  const Tables tables = two_axes();
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Program program = random_program(tables, seed);
    const std::string text = to_text(program);
    ASSERT_EQ(parse(text, tables), program) << "seed " << seed << "\n" << text;
    ASSERT_EQ(to_text(parse(text, tables)), text) << "seed " << seed;
  }
}

TEST(ProgramText, CallsEachOpByItsWord) {
  const Tables tables = two_axes();
  const auto cell = [](CellKind kind) { return static_cast<std::uint16_t>(kind); };
  const std::pair<Op, std::string> table[] = {
      {{.what = OpKind::forward, .item = 2, .micro = 0}, "2F0"},
      {{.what = OpKind::forward, .item = 2, .micro = 0, .flags = kNoTape}, "2N0"},
      {{.what = OpKind::recompute, .item = 2, .micro = 0}, "2R0"},
      {{.what = OpKind::backward, .item = 2, .micro = 0}, "2B0"},
      {{.what = OpKind::backward_input, .item = 2, .micro = 0}, "2I0"},
      {{.what = OpKind::backward_weight, .part = 1, .item = 2, .micro = 0}, "2W0/1"},
      {{.what = OpKind::gather, .item = 5}, "g5"},
      {{.what = OpKind::reduce, .item = 5, .flags = kEndsSource}, "r5!"},
      {{.what = OpKind::step, .item = 5}, "s5"},
      {{.what = OpKind::send, .item = 2, .micro = 0}, ">2.0"},
      {{.what = OpKind::receive, .item = 2, .micro = 0, .flags = cell(CellKind::gradient)}, "<G2.0"},
      {{.what = OpKind::exchange, .item = 1, .micro = 3}, "x1.3"},
      {{.what = OpKind::sum, .item = 2}, "+norm"},
      {{.what = OpKind::offload, .item = 4, .flags = cell(CellKind::state)}, "oA4"},
      {{.what = OpKind::fetch, .item = 4, .flags = cell(CellKind::state)}, "fA4"},
      {{.what = OpKind::free, .item = 4, .flags = cell(CellKind::full)}, "dU4"},
  };
  for (const auto& [op, text] : table) EXPECT_EQ(word(op, tables), text);
}

TEST(ProgramText, CanBeWrittenByHand) {
  const Program program = parse(R"(
    # the last stage
    class 0
      0: <2.0 @pp over pp hop -1    # from the stage before
      1: 3F0 @compute wait 0,^1
  )",
                                two_axes());
  ASSERT_EQ(program.classes.size(), 1u);
  const Sequence& sequence = program.classes[0];
  EXPECT_EQ(
      sequence.ops[0],
      (Op{.what = OpKind::receive, .lane = communication(1), .item = 2, .micro = 0, .along = 1, .hop = -1}));
  EXPECT_EQ(sequence.waits, (std::vector<std::uint32_t>{0, 1 | kPreviousStep}));
}

TEST(ProgramText, RefusesMoreWaitsThanAnOpCanCount) {
  const auto with_waits = [](std::size_t count) {
    std::string text = "class 0\n0: 1F0 @compute\n1: 1B0 @compute wait 0";
    for (std::size_t i = 1; i < count; ++i) text += ",0";
    return text;
  };
  EXPECT_EQ(parse(with_waits(65535), two_axes()).classes[0].ops[1].num_waits, 65535);
  try {
    parse(with_waits(65536), two_axes());
    ADD_FAILURE() << "accepted";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("line 3: an op can wait for at most 65535 others"),
              std::string::npos)
        << std::string(error.what()).substr(0, 200);
  }
}

TEST(ProgramText, KindsOfOpsHaveNamesThatReadBack) {
  for (int i = 0; i < kNumOpKinds; ++i) {
    const auto what = static_cast<OpKind>(i);
    EXPECT_EQ(op_kind_named(name_of(what)), what);
  }
  EXPECT_EQ(name_of(OpKind::backward_input), "input half");
  EXPECT_EQ(name_of(OpKind::free), "free");
  EXPECT_EQ(op_kind_named("forwards"), std::nullopt);
}

TEST(ProgramText, LanesAndWaitsAreSpoken) {
  const Tables tables = two_axes();
  const Program program = parse("class 0\n0: 1F0 @compute\n1: r1! @dp over dp wait 0,^1\n", tables);
  const auto& sequence = program.classes[0];
  EXPECT_EQ(name_of(sequence.ops[0].lane, tables), "compute");
  EXPECT_EQ(name_of(sequence.ops[1].lane, tables), "communication dp");
  EXPECT_EQ(name_of(communication(sequence.ops[1].along, 1), tables), "communication dp down");
  EXPECT_EQ(waited_words(sequence, sequence.ops[1], tables), "1F0");
}

TEST(ProgramText, ErrorsNameTheLineAndWhatWasExpected) {
  const std::pair<const char*, const char*> table[] = {
      {"0: 1F0 @compute", "line 1: expected 'class 0'"},
      {"class 1", "line 1: class 0 comes next"},
      {"class 0\n1: 1F0 @compute", "line 2: op 0 comes next, not 1"},
      {"class 0\n0: 1Q0 @compute", "'Q' is no kind of compute"},
      {"class 0\n0: q0 @compute", "'q' begins no op"},
      {"class 0\n0: 1F @compute", "expected a micro-batch"},
      {"class 0\n0: 1F0 compute", "expected the lane"},
      {"class 0\n0: 1F0 @xp", "no axis set 'xp'"},
      {"class 0\n0: +tonkes @dp", "no number 'tonkes'"},
      {"class 0\n0: 1F0 @compute wait x", "expected the number of an op"},
      {"class 0\n0: 1F0 @compute now", "expected over, hop, cost or wait"},
      {"class 0\n0: 99999999999F0 @compute", "expected a segment"},
      {"class 0\n0: g", "expected a bucket"},
  };
  for (const auto& [text, expected] : table) {
    try {
      parse(text, two_axes());
      ADD_FAILURE() << "accepted: " << text;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace tessera::program
