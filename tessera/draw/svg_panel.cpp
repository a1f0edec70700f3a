#include <algorithm>
#include <cmath>

#include "tessera/base/text.hpp"
#include "tessera/draw/palette.hpp"
#include "tessera/draw/sheet.hpp"
#include "tessera/draw/svg.hpp"
#include "tessera/program/ir/text.hpp"

namespace tessera::draw {
namespace {

constexpr double kFont = 11, kSmallFont = 8;
constexpr double kEdgedWidth = 4;  // an edge would hide a narrower bar

// What a viewer shows of a bar under the pointer, and the page's script reads.
std::string told(const Picture& picture, const Lanes& rank, const Row& row, const Bar& bar) {
  std::string out = cat(bar.word, ": ", program::name_of(bar.what));
  if (bar.micro != program::kOfStep) out += cat(", micro-batch ", bar.micro);
  if (bar.visit > 0) out += cat(", virtual stage ", bar.visit, " of its rank");
  out += cat("; ", rank.name, ", ", row.lane, "; starts ", time_text(bar.start, picture.unit), ", takes ",
             time_text(bar.end - bar.start, picture.unit));
  if (!bar.waits.empty()) out += cat("; waits for ", bar.waits);
  return out;
}

std::string rect(std::string_view classes, double x, double y, double width, double height) {
  return cat("<rect class=\"", classes, "\" x=\"", px(x), "\" y=\"", px(y), "\" width=\"", px(width),
             "\" height=\"", px(height), "\"");
}

// The micro-batch in the bar, in the larger font that fits.
std::string micro_text(const Bar& bar, const std::string& colour, double x, double y, double width,
                       double height, bool is_zoomed) {
  if (bar.micro == program::kOfStep) return "";
  const std::string digits = cat(bar.micro);
  const auto fits = [&](double font) {
    return static_cast<double>(digits.size()) * kDigitEms * font + 2 <= width;
  };
  if (!fits(kSmallFont) && !is_zoomed) return "";
  const double font = fits(kFont) ? kFont : kSmallFont;
  std::string classes = cat("micro on-", colour, font == kFont ? "" : " small");
  if (!fits(kSmallFont)) classes += " no-room";
  if (is_zoomed) classes += cat("\" data-room=\"", px(width));
  return text_at(x + width / 2, y + height / 2 + 0.36 * font, classes, digits);
}

void add_row(Sheet& sheet, const Picture& picture, const Lanes& rank, const Row& row, double makespan) {
  const bool computes = row.kind == program::LaneKind::compute;
  const double height = computes ? kComputeHeight : kLaneHeight - 2;
  const double until = computes ? makespan * sheet.scale : sheet.plot_width;
  sheet.body += "<g class=\"moves\">\n" +
                rect(computes ? "idle" : "lane-ground", kGutter, sheet.y, until, height) + "/>\n";
  for (const Bar& bar : row.bars) {
    if (!takes_time(bar)) continue;
    const double x = sheet.x(bar.start), width = (bar.end - bar.start) * sheet.scale;
    const std::string colour = colour_class(bar.what, shade_of(bar.micro));
    sheet.body +=
        cat(rect(cat("bar ", colour, width > kEdgedWidth ? " edged" : ""), x, sheet.y, width, height),
            "><title>", xml_escaped(told(picture, rank, row, bar)), "</title></rect>\n");
    if (!computes) continue;
    const double foot = foot_height(bar.visit);
    sheet.body += stripes(bar.visit, colour, x, sheet.y + height, width);
    sheet.body += micro_text(bar, colour, x, sheet.y, width, height - foot, sheet.is_zoomed);
  }
  sheet.body += "</g>\n";
  sheet.y += computes ? kComputeHeight + 2 : kLaneHeight;
}

void add_held(Sheet& sheet, const Picture& picture, const Lanes& rank, double peak) {
  const double floor = sheet.y + kHeldHeight, unit = (kHeldHeight - 2) / peak;
  double held = 0;
  std::string path = cat("M", px(kGutter), " ", px(floor));
  for (std::size_t i = 0; i < rank.held.size(); ++i) {
    // Of several changes at one time only the last is seen.
    if (i + 1 < rank.held.size() && rank.held[i + 1].time == rank.held[i].time) continue;
    if (rank.held[i].held == held) continue;
    held = rank.held[i].held;
    path += cat("H", px(sheet.x(rank.held[i].time)), "V", px(floor - held * unit));
  }
  sheet.body += cat("<g class=\"moves\"><path class=\"held\" d=\"", path, "H", px(kGutter + sheet.plot_width),
                    "V", px(floor), "Z\"><title>",
                    xml_escaped(cat(rank.name, " holds up to ", held_text(rank.peak_held, picture.held))),
                    "</title></path></g>\n");
  sheet.body +=
      text_at(kGutter - 8, floor - 6, "lane",
              cat(picture.held == Held::bytes ? "" : "holds ", held_text(rank.peak_held, picture.held)));
  sheet.y = floor;
}

void add_rank(Sheet& sheet, const Picture& picture, const Lanes& rank, double makespan, double peak) {
  const std::string name = rank.num_ranks > 1 ? cat(rank.name, " +", rank.num_ranks - 1) : rank.name;
  sheet.body +=
      text_at(kMargin, sheet.y + kComputeHeight / 2 + 4, "name", fitted(name, kFont, kGutter - kMargin - 4));
  for (const Row& row : rank.rows) {
    if (!takes_time(row)) continue;
    const std::string_view prefix = "communication ";
    const std::string_view lane = row.lane;
    if (row.kind != program::LaneKind::compute)
      sheet.body +=
          text_at(kGutter - 8, sheet.y + 7.5, "lane",
                  fitted(lane.starts_with(prefix) ? lane.substr(prefix.size()) : lane, 9, kGutter - 24));
    add_row(sheet, picture, rank, row, makespan);
  }
  if (peak > 0) add_held(sheet, picture, rank, peak);
  sheet.y += kRankGap;
}

// Ticks along the top or the bottom of a panel, and their lines through it.
void add_axis(Sheet& sheet, const Picture& picture, double end, double text_y) {
  const double step = tick_step(end, sheet.plot_width / 64);
  for (int i = 0; i * step <= end * (1 + 1e-9); ++i)
    sheet.body += text_at(sheet.x(i * step), text_y, "tick", time_text(i * step, picture.unit));
}

std::string grid(const Sheet& sheet, double end, double top, double bottom) {
  const double step = tick_step(end, sheet.plot_width / 64);
  std::string path;
  for (int i = 0; i * step <= end * (1 + 1e-9); ++i)
    path += cat("M", px(sheet.x(i * step)), " ", px(top), "V", px(bottom));
  return cat("<g class=\"moves\"><path class=\"grid\" d=\"", path, "\"/></g>\n");
}

}  // namespace

void add_panel(Sheet& sheet, const Picture& picture, const Panel& panel, double end, double peak) {
  sheet.body +=
      text_at(kMargin, sheet.y + 14, "panel",
              fitted(cat(panel.title, ": ", numbers_text(picture, panel)), 13, sheet.width() - 2 * kMargin));
  sheet.y += 24;
  const double top = sheet.y + 14;
  sheet.body += "<g class=\"plot\">\n";
  add_axis(sheet, picture, end, sheet.y + 8);
  sheet.y = top + 4;
  const std::size_t grid_at = sheet.body.size();
  for (const Lanes& rank : panel.ranks) add_rank(sheet, picture, rank, panel.makespan, peak);
  const double bottom = sheet.y - kRankGap + 4;
  sheet.body.insert(grid_at, grid(sheet, end, top, bottom));  // under the bars
  sheet.body += cat("<g class=\"moves\"><path class=\"makespan\" d=\"M", px(sheet.x(panel.makespan)), " ",
                    px(top), "V", px(bottom), "\"/></g>\n");
  add_axis(sheet, picture, end, bottom + 12);
  sheet.body += "</g>\n";
  sheet.y = bottom + 26;
}

}  // namespace tessera::draw
