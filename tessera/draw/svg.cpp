#include "tessera/draw/svg.hpp"

#include <algorithm>
#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/draw/sheet.hpp"

namespace tessera::draw {
namespace {

constexpr std::size_t kMostBars = 200'000;
constexpr double kLeastPlot = 760;
constexpr double kShortBar = 18;  // pixels that a short bar gets while there is room: two digits

std::vector<double> compute_lengths(const Picture& picture) {
  std::vector<double> out;
  for (const Panel& panel : picture.panels)
    for (const Lanes& rank : panel.ranks)
      for (const Row& row : rank.rows)
        for (const Bar& bar : row.bars)
          if (row.kind == program::LaneKind::compute && bar.end > bar.start)
            out.push_back(bar.end - bar.start);
  return out;
}

std::size_t num_bars(const Picture& picture) {
  std::size_t out = 0;
  for (const Panel& panel : picture.panels)
    for (const Lanes& rank : panel.ranks)
      for (const Row& row : rank.rows) out += row.bars.size();
  return out;
}

double plot_width(const Picture& picture, double end, double most_width) {
  auto lengths = compute_lengths(picture);
  if (lengths.empty() || !(end > 0)) return kLeastPlot;
  // The shortest but for a twentieth of the busy time: an embedding's sliver must not widen the picture.
  std::ranges::sort(lengths);
  const double few = std::accumulate(lengths.begin(), lengths.end(), 0.0) / 20;
  auto at = lengths.begin();
  for (double sum = *at; sum < few; sum += *at) ++at;
  return std::clamp(end / *at * kShortBar, kLeastPlot, std::max(kLeastPlot, most_width - kGutter - kMargin));
}

}  // namespace

std::string to_svg(const Picture& picture, const SvgOptions& options) {
  if (const std::size_t bars = num_bars(picture); bars > kMostBars)
    throw UserError(cat("the picture would have ", bars, " bars; up to ", kMostBars,
                        " can be shown. Draw fewer micro-batches or ranks: the pattern repeats."));
  double end = 0, peak = 0;
  for (const Panel& panel : picture.panels) {
    end = std::max(end, panel.end);
    peak = std::max(peak, panel.peak_held());
  }
  Sheet sheet;
  sheet.plot_width = plot_width(picture, end, options.most_width);
  sheet.is_zoomed = options.is_zoomed;
  sheet.scale = end > 0 ? sheet.plot_width / end : 1;
  add_heading(sheet, picture);
  add_legend(sheet, picture);
  for (const Panel& panel : picture.panels) add_panel(sheet, picture, panel, end, peak);
  if (picture.panels.size() == 2) add_comparison(sheet, picture);
  const std::string data =
      !options.is_zoomed
          ? ""
          : cat(" data-left=\"", px(kGutter), "\" data-width=\"", px(sheet.plot_width), "\" data-end=\"",
                end > 0 ? end : 1.0, "\" data-unit=\"", picture.unit == Unit::seconds ? "s" : "", "\"");
  const std::string width = px(sheet.width()), height = px(sheet.y + kMargin);
  return cat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", width, " ", height, "\" width=\"",
             width, "\" height=\"", height, "\" role=\"img\"", data, ">\n<title>", xml_escaped(picture.title),
             "</title>\n<style>\n", style_sheet(), "</style>\n", hatched_pattern(),
             "<rect class=\"paper\" width=\"", width, "\" height=\"", height, "\"/>\n", sheet.body,
             "</svg>\n");
}

}  // namespace tessera::draw
