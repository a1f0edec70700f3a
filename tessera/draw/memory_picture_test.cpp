#include "tessera/draw/memory_picture.hpp"

#include <gmock/gmock.h>

#include "tessera/program/passes/generate.hpp"
#include "tessera/program/testing/examples.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::draw {
namespace {

using testing::HasSubstr;

MemoryPicture small_picture(std::int64_t limit) {
  const auto tables = program::example_tables({.num_blocks = 1, .num_micro = 2, .dp = 2, .tied = false});
  const auto program = program::data_parallel(tables);
  const auto costs = simulate::costs_by(program, [](std::uint32_t, const program::Op&) {
    return program::Cost{.phases = {{-1, 1.0}}};
  });
  auto picture = memory_picture(program, simulate::simulate(program, costs), limit);
  picture.title = "a < b";
  return picture;
}

TEST(MemoryPicture, LevelsReachThePeakAndNoMore) {
  const MemoryPicture picture = small_picture(0);
  ASSERT_EQ(picture.panels.size(), 1u);
  const MemoryPanel& panel = picture.panels[0];
  EXPECT_EQ(panel.title, "rank 0 (and 1 equal to it)");
  std::int64_t most = 0;
  for (const MemoryLevel& level : panel.levels) {
    std::int64_t sum = 0;
    for (const std::int64_t bytes : level.bytes.bytes) sum += bytes;
    most = std::max(most, sum);
    EXPECT_LE(level.time, picture.end);
  }
  EXPECT_EQ(most, panel.peak_bytes);
  EXPECT_THAT(panel.peak_text, HasSubstr(" in op "));
}

TEST(MemoryPicture, SvgHasALayerForEachCategoryThePeakAndTheLimit) {
  const std::string svg = to_svg(small_picture(1 << 20));
  EXPECT_THAT(svg, HasSubstr("<title>a &lt; b</title>"));
  for (const char* name : {"parameters", "gradients", "optimizer", "values", "tapes"})
    EXPECT_THAT(svg, HasSubstr(std::string(": ") + name + ", up to "));
  EXPECT_THAT(svg, HasSubstr("class=\"peak\""));
  EXPECT_THAT(svg, HasSubstr(">limit 1.0 MiB<"));
  EXPECT_THAT(to_svg(small_picture(0)), testing::Not(HasSubstr(">limit ")));
  EXPECT_THAT(to_html(small_picture(0)), testing::StartsWith("<!doctype html>"));
}

}  // namespace
}  // namespace tessera::draw
