#include <algorithm>
#include <cmath>

#include "tessera/base/text.hpp"
#include "tessera/draw/memory_picture.hpp"
#include "tessera/draw/picture.hpp"
#include "tessera/draw/sheet.hpp"
#include "tessera/draw/svg.hpp"

namespace tessera::draw {
namespace {

constexpr double kPlotWidth = 900, kPanelHeight = 190;

// What stays at the bottom, what comes and goes above it: Okabe and Ito's colours.
struct Layer {
  Category category;
  const char* colour;
};
constexpr Layer kLayers[] = {{Category::optimizer, "#5a5a5a"}, {Category::parameters, "#0072b2"},
                             {Category::gradients, "#d55e00"}, {Category::tapes, "#e69f00"},
                             {Category::values, "#009e73"},    {Category::buffers, "#cc79a7"}};

double bytes_in(const MemoryLevel& level, std::size_t layer) {
  return static_cast<double>(level.bytes.of(kLayers[layer].category));
}

// The place of a panel on the sheet.
struct Frame {
  double top, floor, bytes_per_pixel;
  double y(double bytes) const { return floor - bytes / bytes_per_pixel; }
};

std::string layer_path(const Sheet& sheet, const MemoryPanel& panel, const Frame& frame, std::size_t layer,
                       double end) {
  const auto edge = [&](const MemoryLevel& level, std::size_t layers) {
    double sum = 0;
    for (std::size_t i = 0; i < layers; ++i) sum += bytes_in(level, i);
    return frame.y(sum);
  };
  std::string upper, lower;
  for (std::size_t i = 0; i < panel.levels.size(); ++i) {
    const MemoryLevel& level = panel.levels[i];
    const double from = sheet.x(i == 0 ? 0 : level.time);
    const double to = sheet.x(i + 1 < panel.levels.size() ? panel.levels[i + 1].time : end);
    upper += cat(i == 0 ? "M" : "L", px(from), " ", px(edge(level, layer + 1)), "H", px(to));
    lower = cat("L", px(to), " ", px(edge(level, layer)), "H", px(from), lower);
  }
  return upper + lower + "Z";
}

void add_scale(Sheet& sheet, const MemoryPicture& picture, const Frame& frame, double most) {
  // Steps that read well in binary units.
  double step = 1;
  while (most / step > 5) step *= 2;
  for (double bytes = 0; bytes <= most; bytes += step) {
    sheet.body += text_at(kGutter - 8, frame.y(bytes) + 3, "lane", bytes == 0 ? "0" : bytes_text(bytes));
    sheet.body += cat("<path class=\"grid\" d=\"M", px(kGutter), " ", px(frame.y(bytes)), "h", px(kPlotWidth),
                      "\"/>\n");
  }
  const double ticks = tick_step(picture.end, kPlotWidth / 90);
  for (int i = 0; i * ticks <= picture.end * (1 + 1e-9); ++i)
    sheet.body += text_at(sheet.x(i * ticks), frame.floor + 13, "tick", time_text(i * ticks, Unit::seconds));
}

void add_marks(Sheet& sheet, const MemoryPicture& picture, const MemoryPanel& panel, const Frame& frame) {
  if (const auto limit = static_cast<double>(picture.limit_bytes); limit > 0) {
    sheet.body += cat("<path class=\"limit\" d=\"M", px(kGutter), " ", px(frame.y(limit)), "h",
                      px(kPlotWidth), "\"/>\n");
    sheet.body += text_at(kGutter + 4, frame.y(limit) - 4, "quiet", cat("limit ", bytes_text(limit)));
  }
  const double x = sheet.x(panel.peak_time), y = frame.y(static_cast<double>(panel.peak_bytes));
  sheet.body += cat("<path class=\"peak\" d=\"M", px(x), " ", px(y - 3), "l-4 -7h8Z\"/>\n");
}

void add_panel(Sheet& sheet, const MemoryPicture& picture, const MemoryPanel& panel, double most) {
  sheet.body +=
      text_at(kMargin, sheet.y + 14, "panel",
              fitted(cat(panel.title, ": at most ", panel.peak_text), 13, sheet.width() - 2 * kMargin));
  const Frame frame{sheet.y + 34, sheet.y + 34 + kPanelHeight, most / kPanelHeight};
  add_scale(sheet, picture, frame, most);
  for (std::size_t layer = 0; layer < std::size(kLayers); ++layer) {
    double largest = 0;
    for (const MemoryLevel& level : panel.levels) largest = std::max(largest, bytes_in(level, layer));
    if (largest == 0) continue;
    const auto name = name_of(kLayers[layer].category);
    sheet.body += cat("<path fill=\"", kLayers[layer].colour, "\" d=\"",
                      layer_path(sheet, panel, frame, layer, picture.end), "\"><title>", panel.title, ": ",
                      name, ", up to ", bytes_text(largest), "</title></path>\n");
  }
  add_marks(sheet, picture, panel, frame);
  sheet.y = frame.floor + 30;
}

void add_heading(Sheet& sheet, const MemoryPicture& picture) {
  sheet.y = kMargin + 14;
  const double room = sheet.width() - 2 * kMargin;
  sheet.body += text_at(kMargin, sheet.y, "title", fitted(picture.title, 16, room));
  for (const std::string& note : picture.notes)
    sheet.body += text_at(kMargin, sheet.y += 18, "numbers quiet", fitted(note, 12, room));
  sheet.y += 12;
  double x = kMargin;
  for (const Layer& layer : kLayers) {
    const std::string name(name_of(layer.category));
    sheet.body += cat("<rect fill=\"", layer.colour, "\" x=\"", px(x), "\" y=\"", px(sheet.y),
                      "\" width=\"12\" height=\"12\"/>\n");
    sheet.body += text_at(x + 17, sheet.y + 10, "legend", name);
    x += 17 + kLetterEms * 11 * static_cast<double>(name.size()) + 16;
  }
  sheet.y += 22;
}

}  // namespace

std::string to_svg(const MemoryPicture& picture) {
  Sheet sheet;
  sheet.plot_width = kPlotWidth;
  sheet.scale = picture.end > 0 ? kPlotWidth / picture.end : 1;
  double most = static_cast<double>(picture.limit_bytes);
  for (const MemoryPanel& panel : picture.panels)
    most = std::max(most, static_cast<double>(panel.peak_bytes));
  add_heading(sheet, picture);
  for (const MemoryPanel& panel : picture.panels) add_panel(sheet, picture, panel, most * 1.06);
  return svg_file(picture.title,
                  ".limit { stroke: #d55e00; stroke-width: 1.5; stroke-dasharray: 6 4; fill: none } "
                  ".peak { fill: var(--text) }\n",
                  sheet.width(), sheet.y + kMargin, sheet.body);
}

std::string to_html(const MemoryPicture& picture) {
  return cat(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>", xml_escaped(picture.title),
      "</title>\n<style>body { margin: 0 } svg { display: block; width: 100%; height: auto }</style>\n",
      "</head>\n<body>\n", to_svg(picture), "</body>\n</html>\n");
}

}  // namespace tessera::draw
