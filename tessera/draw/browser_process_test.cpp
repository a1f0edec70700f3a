// Does a real browser show what was meant? Chromium lays out the texts, zooms the page and tells of its bars;
// Python's XML parser reads the SVG.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tessera/base/files/file_text.hpp"
#include "tessera/base/text.hpp"
#include "tessera/draw/experts/experts_picture.hpp"
#include "tessera/draw/html.hpp"
#include "tessera/draw/order_picture.hpp"
#include "tessera/draw/svg.hpp"
#include "tessera/program/schedule/schedules.hpp"

namespace tessera::draw {
namespace {

Picture picture(std::uint32_t ranks, std::int32_t micro) {
  const program::Pipeline p{ranks, 2, micro, program::even_costs(ranks, 2, {1, 1, 1}, 0.1)};
  return picture_of(program::zero_bubble_v(p), p.costs,
                    cat("zb-v, ", ranks, " ranks & ", micro, " micro-batches"));
}

Picture two_panels() {
  Picture out = picture(4, 8);
  out.panels.push_back(out.panels[0]);
  out.panels[1].title = "measured, step 3";
  out.unit = Unit::seconds;
  out.notes = {"A note that says what was measured, and in which words it is told."};
  return out;
}

class Browser : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / cat("tessera-draw-", getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  // What the script, which runs after the page, leaves in `outcome`; it may wait for frames.
  std::string run(const std::string& page, const std::string& script) const {
    const std::string hook =
        cat("<pre id=\"outcome\"></pre><script>\nconst outcome = document.getElementById('outcome');\n",
            // Without a screen, and on the virtual clock, frames may never come.
            "window.requestAnimationFrame = (done) => setTimeout(done, 16);\n",
            "const frame = () => new Promise((done) => setTimeout(done, 200));\n", "(async () => {\n", script,
            "\n})().catch((error) => outcome.textContent = 'threw ' + error);\n</script>");
    const std::string in = file("page.html", page + hook), out = (folder_ / "dom.html").string();
    const std::string command =
        cat("chromium --headless --no-sandbox --disable-gpu --window-size=1400,900 "
            "--virtual-time-budget=20000 --user-data-dir=",
            (folder_ / "profile").string(), " --dump-dom file://", in, " > ", out, " 2>/dev/null");
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    const std::string dom = file_text(out), begin = "<pre id=\"outcome\">";
    const auto at = dom.find(begin);
    EXPECT_NE(at, dom.npos) << dom.substr(0, 1000);
    return at == dom.npos ? "" : dom.substr(at + begin.size(), dom.find("</pre>", at) - at - begin.size());
  }

  std::filesystem::path folder_;
};

TEST_F(Browser, SvgIsWellFormedXml) {
  for (const Picture& each : {picture(4, 8), picture(16, 64), two_panels()}) {
    const std::string path = file("picture.svg", to_svg(each));
    const std::string command =
        cat("python3 -c 'import sys, xml.dom.minidom as x; d = x.parse(sys.argv[1]); "
            "sys.exit(d.documentElement.tagName != \"svg\" or bool(d.getElementsByTagName(\"script\")))' ",
            path);
    EXPECT_EQ(std::system(command.c_str()), 0) << each.title;
  }
}

// Texts as the browser lays them out: within the sheet, apart from each other, numbers within their bars.
constexpr char kLookAtTexts[] = R"(
const svg = document.querySelector('svg'), box = svg.viewBox.baseVal, problems = [];
const texts = [...svg.querySelectorAll('text')].filter((text) => !text.classList.contains('no-room'));
const places = texts.map((text) => text.getBBox());
const bars = [...svg.querySelectorAll('.bar')].map((bar) => bar.getBBox());
const rows = new Map();
texts.forEach((text, i) => {
  const a = places[i];
  if (a.x < 0 || a.y < 0 || a.x + a.width > box.width || a.y + a.height > box.height)
    problems.push('outside: ' + text.textContent);
  if (text.classList.contains('micro') &&
      !bars.some((bar) => bar.x <= a.x && a.x + a.width <= bar.x + bar.width && bar.y - 1 <= a.y
          && a.y + a.height <= bar.y + bar.height + 1))
    problems.push('not in a bar: ' + text.textContent + ' at ' + a.x);
  const row = text.getAttribute('y');
  (rows.get(row) || rows.set(row, []).get(row)).push(a);
});
for (const [y, row] of rows) {
  row.sort((a, b) => a.x - b.x);
  for (let i = 1; i < row.length; ++i)
    if (row[i - 1].x + row[i - 1].width > row[i].x) problems.push('texts overlap at ' + row[i].x + ', ' + y);
}
outcome.textContent = problems.length ? problems.slice(0, 5).join('; ') : texts.length + ' texts';
)";

TEST_F(Browser, TextsHaveTheirPlaces) {
  for (const Picture& each : {picture(4, 8), picture(16, 64), two_panels()}) {
    const std::string svg = to_svg(each);
    EXPECT_TRUE(run(cat("<!doctype html><meta charset=\"utf-8\">", svg), kLookAtTexts).ends_with(" texts"))
        << each.title << ": " << run(svg, kLookAtTexts);
  }
}

ExpertsPicture experts(std::size_t num_layers, std::size_t num_experts, std::int64_t first_step) {
  ExpertsPicture out{.source = "a & b/metrics.jsonl"};
  std::vector<LayerTokens> layers(num_layers);
  for (std::size_t i = 0; i < num_layers; ++i)
    layers[i] = {static_cast<std::int64_t>(i), std::vector<double>(num_experts, 1)};
  layers.back().tokens[0] = 8;
  for (const std::int64_t step : {0, 1, 5, 12}) out.history.add(first_step + step, layers);
  return out;
}

TEST_F(Browser, TextsOfExpertsLieBesideTheirPanels) {
  const std::string look = cat(R"(
const cells = [...document.querySelectorAll('rect[class^=heat]')].map((cell) => cell.getBBox());
for (const text of document.querySelectorAll('text')) {
  const a = text.getBBox();
  if (text.textContent !== 'even' && cells.some((b) => a.x < b.x + b.width && b.x < a.x + a.width &&
      a.y + 3 < b.y + b.height && b.y < a.y + a.height - 3)) {
    outcome.textContent = 'on a cell: ' + text.textContent;
    return;
  }
}
)",
                               kLookAtTexts);
  for (const ExpertsPicture& each :
       {experts(2, 8, 1), experts(1, 1, 1), experts(8, 64, 12'345'678), experts(61, 256, 1'234'567)}) {
    const std::string outcome = run(cat("<!doctype html><meta charset=\"utf-8\">", to_svg(each)), look);
    EXPECT_TRUE(outcome.ends_with(" texts")) << each.title() << ": " << outcome;
  }
}

TEST_F(Browser, TheWheelZoomsAroundThePointerAndResetGoesBack) {
  const std::string outcome = run(to_html(picture(16, 64)), R"(
const bar = document.querySelectorAll('.bar')[3], width = () => +bar.getAttribute('width');
const number = bar.parentNode.querySelectorAll('.micro')[3], before = width(),
    hidden = number.classList.contains('no-room');
const ticks = () => document.querySelectorAll('.tick').length;
const box = bar.getBoundingClientRect(),
    at = {clientX: Math.round(box.left + 1), clientY: box.top + 3, bubbles: true, cancelable: true};
const share = (at.clientX - box.left) / box.width;
const old_ticks = ticks();
bar.dispatchEvent(new WheelEvent('wheel', {...at, deltaY: -800}));
await frame();
const after = bar.getBoundingClientRect();
const still = Math.abs((at.clientX - after.left) / after.width - share) < 0.01;
const ratio = width() / before, shown = !number.classList.contains('no-room'), zoomed_ticks = ticks();
document.querySelector('[data-key="0"]').click();
await frame();
outcome.textContent = JSON.stringify({ratio: ratio.toFixed(2), still, hidden, shown,
    ticks: old_ticks > 4 && zoomed_ticks > 4, back: width() === before});
)");
  EXPECT_EQ(outcome, R"({"ratio":"7.39","still":true,"hidden":true,"shown":true,"ticks":true,"back":true})");
}

TEST_F(Browser, DraggingMovesAlongTimeAndStopsAtTheEnds) {
  const std::string outcome = run(to_html(picture(4, 8)), R"(
const bar = document.querySelector('.bar'), x = () => +bar.getAttribute('x'), start = x();
const svg = document.querySelector('svg'), plot = document.querySelector('.plot');
const box = svg.getBoundingClientRect(), pixels = svg.viewBox.baseVal.width / box.width;
const event = (name, x) => new PointerEvent(name, {clientX: x, clientY: 300, bubbles: true});
const drag = async (from, to) => {
  bar.dispatchEvent(event('pointerdown', from));
  window.dispatchEvent(event('pointermove', to));
  window.dispatchEvent(event('pointerup', to));
  await frame();
};
await drag(600, 400);
const fixed_when_whole = x() === start;
document.dispatchEvent(new KeyboardEvent('keydown', {key: '+'}));
await frame();
const zoomed = x();
await drag(600, 500);
const moved = Math.abs(zoomed - x() - 100 * pixels) < 0.01;
await drag(100, 9000);
outcome.textContent = JSON.stringify({fixed_when_whole, moved, at_start: x() === start});
)");
  EXPECT_EQ(outcome, R"({"fixed_when_whole":true,"moved":true,"at_start":true})");
}

TEST_F(Browser, PointerAndArrowKeysTellOfABar) {
  const std::string outcome = run(to_html(picture(4, 8)), R"(
const told = document.getElementById('told'), bars = document.querySelectorAll('.bar');
const key = (name) => document.dispatchEvent(new KeyboardEvent('keydown', {key: name}));
bars[1].dispatchEvent(new PointerEvent('pointerover', {clientX: 200, clientY: 200, bubbles: true}));
const lines = [told.textContent.split('\n')];
key('ArrowLeft');
lines.push(told.textContent.split('\n')[0]);
key('ArrowDown');
lines.push(told.textContent.split('\n')[1]);
const box = told.getBoundingClientRect();
const inside = box.left >= 0 && box.top >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;
key('Escape');
outcome.textContent = JSON.stringify([...lines, inside, told.textContent,
    document.querySelectorAll('.bar title').length]);
)");
  EXPECT_EQ(outcome, R"([["0F1: forward, micro-batch 1","rank 0, compute","starts 0.5, takes 0.5"],)"
                     R"("0F0: forward, micro-batch 0",)"
                     R"("rank 0, communication pp",true,"",0])");
}

TEST_F(Browser, ThePageIsWholeWithoutANetwork) {
  const std::string page = to_html(two_panels());
  for (const char* outside : {"src=", "href=", "@import", "url(http", "fetch(", "XMLHttpRequest"})
    EXPECT_EQ(page.find(outside), page.npos) << outside;
}

}  // namespace
}  // namespace tessera::draw
