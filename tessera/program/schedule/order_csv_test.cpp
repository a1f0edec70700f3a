#include "tessera/program/schedule/order_csv.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.hpp"
#include "tessera/program/schedule/schedules.hpp"

namespace tessera::program {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(OrderCsv, EveryScheduleIsWrittenAndReadBack) {
  const Pipeline one{3, 1, 7, {}}, two{3, 2, 7, {}};
  for (const Order& order : {gpipe(one), one_forward_one_backward(one), zero_bubble_h1(one), interleaved(two),
                             breadth_first(two), zero_bubble_v(two), dualpipe_v(two)})
    EXPECT_EQ(parse_order_csv(to_csv(order)), order);
}

TEST(OrderCsv, IsReadAsPyTorchWritesIt) {
  const Order expected{
      2,
      {0, 1},
      {{{OpKind::forward, 0, 0}, {OpKind::forward, 0, 1}, {OpKind::backward, 0, 0}, {OpKind::backward, 0, 1}},
       {{OpKind::forward, 1, 0},
        {OpKind::backward_input, 1, 0},
        {OpKind::backward_weight, 1, 0},
        {OpKind::forward, 1, 1},
        {OpKind::backward, 1, 1}}}};
  EXPECT_EQ(parse_order_csv("0F0,0F1,,0B0,0B1,\r\n,1F0, 1I0,1W0 ,(1F1;1B1)OVERLAP_F_B\r\n\r\n \r\n\r\n"),
            expected);
  EXPECT_EQ(to_csv(expected), "0F0,0F1,0B0,0B1\n1F0,1I0,1W0,1F1,1B1\n");
}

TEST(OrderCsv, SaysWhatIsWrongAndWhere) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"", "there are no tasks"},
      {"0F0,0X0", "row 1, column 2: '0X0' is no task"},
      {"0F0,0R0,0B0", "row 1, column 2: '0R0' is no task"},
      {"0F0,0B", "column 2: '0B' is no task"},
      {"0F0,0B-1", "column 2: '0B-1' is no task"},
      {"0F0,0SEND_F0", "no sends or receives"},
      {"0F0,F0", "'F0' is no task"},
      {"0F99999999999,0B0", "'0F99999999999' is no task"},
      {"(0F0;0B0)OVERLAP", "is no pair of tasks"},
      {"0F0,0B0,0F0", "row 1, column 3: 0F0 is there already, at row 1, column 1"},
      {"0F0,0B0\n\n1F0,1B0", "row 2: this rank has no task"},
      {"0F0,0B0\n0F1,0B1", "0F1 lies on rank 1, but stage 0 began on rank 0 (row 1, column 1)"},
      {"0F0,0B0\n2F0,2B0", "stage 1 has no task, but there is a stage 2 (row 2, column 1)"},
      {"4000000000F0,4000000000B0", "stage 0 has no task"},
      {"0F2000000000,0B0", "0F2000000000: up to 16777216 micro-batches are read"},
      {"0F0,0B0,0B1", "0F1 is missing"},
      {"0F0", "0B0 is missing, or its halves"},
      {"0F0,0I0", "0W0 is missing, the other half of I"},
      {"0F0,0W0", "0I0 is missing, the other half of W"},
      {"0F0,0B0,0W0", "0B0 (row 1, column 2) is a whole backward, and there is a half too, 0W0"},
      {"0B0,0F0", "this order never ends: rank 0 stands before 0B0, which needs 0F0"},
      {"0F0,0W0,0I0", "rank 0 stands before 0W0, which needs 0I0"},
  };
  for (const auto& [text, problem] : cases)
    EXPECT_THAT([&] { parse_order_csv(text); },
                ThrowsMessage<UserError>(AllOf(HasSubstr("schedule file"), HasSubstr(problem))))
        << text;
}

}  // namespace
}  // namespace tessera::program
