#include <algorithm>

#include "tessera/base/text.hpp"
#include "tessera/draw/experts/experts_sheet.hpp"
#include "tessera/draw/experts/heat.hpp"

namespace tessera::draw {
namespace {

constexpr double kLeastLabel = 10;  // pixels between numbers of experts

// By row of a panel: the heat of the busiest expert there.
std::vector<int> heats_of(const LoadColumn& column, std::size_t layer, std::size_t experts_per_row) {
  const std::vector<double> all = loads(column.tokens[layer]);
  std::vector<int> out;
  for (std::size_t i = 0; i < all.size(); i += experts_per_row) {
    const std::size_t end = std::min(all.size(), i + experts_per_row);
    out.push_back(heat_of(*std::max_element(all.begin() + static_cast<std::ptrdiff_t>(i),
                                            all.begin() + static_cast<std::ptrdiff_t>(end))));
  }
  return out;
}

// A path for each heat, in units of columns and rows: neighbours of one heat in a row are one line of it.
// What is even has the colour of the ground.
std::string cells(const LoadHistory& history, std::size_t layer) {
  const auto& columns = history.columns();
  std::vector<std::vector<int>> heats;
  std::size_t num_rows = 0;
  for (const LoadColumn& column : columns) {
    heats.push_back(column.num_steps == 0 ? std::vector<int>()
                                          : heats_of(column, layer, history.grid().experts_per_row));
    num_rows = std::max(num_rows, heats.back().size());
  }
  const auto heat_at = [&](std::size_t column, std::size_t row) {
    return heats[column].empty() ? kEvenHeat : heats[column][row];
  };
  std::string paths[kNumHeats];
  for (std::size_t row = 0; row < num_rows; ++row)
    for (std::size_t from = 0, to = 0; from < columns.size(); from = to) {
      const int heat = heat_at(from, row);
      while (to < columns.size() && heat_at(to, row) == heat) ++to;
      if (heat != kEvenHeat) paths[heat] += cat("M", from, " ", row, "h", to - from);
    }
  std::string out;
  for (int heat = 0; heat < kNumHeats; ++heat)
    if (!paths[heat].empty())
      out += cat("<path class=\"", heat_class(heat), "\" d=\"", paths[heat], "\"/>\n");
  return out;
}

void add_expert_numbers(Sheet& sheet, const PanelGrid& grid, double left, double top, std::size_t num_rows) {
  std::size_t stride = 1;
  while (static_cast<double>(stride) * grid.row_height < kLeastLabel) stride *= 2;
  for (std::size_t row = 0; row < num_rows; row += stride)
    sheet.body += text_at(left - 5, top + grid.row_height * (static_cast<double>(row) + 0.5) + 3, "lane",
                          cat(row * grid.experts_per_row));
}

void add_layer(Sheet& sheet, const LoadHistory& history, std::size_t layer, double x, double y) {
  const PanelGrid& grid = history.grid();
  const WorstLoad& worst = history.worst_of_layers()[layer];
  const double left = x + grid.label_width;
  const std::size_t num_experts = history.columns().front().tokens[layer].size();
  const std::size_t num_rows = (num_experts + grid.experts_per_row - 1) / grid.experts_per_row;
  const double height = grid.row_height * static_cast<double>(num_rows);
  const double column_width = grid.panel_width / static_cast<double>(history.columns().size());
  sheet.body += text_at(x, y + 10, "name", cat("layer ", worst.layer));
  sheet.body += text_at(x, y + 23, "quiet", cat("max ", fixed(worst.load, grid.across == 1 ? 2 : 1)));
  if (grid.across == 1) add_expert_numbers(sheet, grid, left, y, num_rows);
  sheet.body += cat("<g class=\"layer\"><title>layer ", worst.layer, ": at most ", fixed(worst.load, 2),
                    " times the mean, expert ", worst.expert, " in step ", worst.step, "</title>\n");
  sheet.body += rect_at(heat_class(kEvenHeat), left, y, grid.panel_width, height);
  for (std::size_t column = 0; column < history.columns().size(); ++column)
    if (history.columns()[column].num_steps == 0)
      sheet.body +=
          rect_at("idle", left + column_width * static_cast<double>(column), y, column_width, height);
  sheet.body +=
      cat("<g class=\"cells\" transform=\"translate(", px(left), " ", px(y + grid.row_height / 2), ") scale(",
          fixed(column_width, 5), " ", px(grid.row_height), ")\">\n", cells(history, layer), "</g>\n",
          rect_at("grid", left, y, grid.panel_width, height), "</g>\n");
}

}  // namespace

void add_layers(Sheet& sheet, const LoadHistory& history) {
  const PanelGrid& grid = history.grid();
  const std::size_t num_layers = history.worst_of_layers().size();
  const double stride = grid.panel_height() + kPanelGapDown;
  for (std::size_t layer = 0; layer < num_layers; ++layer) {
    const double x = kMargin + static_cast<double>(layer / grid.down) *
                                   (grid.label_width + grid.panel_width + kPanelGapAcross);
    const double y = sheet.y + static_cast<double>(layer % grid.down) * stride;
    add_layer(sheet, history, layer, x, y);
    const bool is_lowest = layer % grid.down == grid.down - 1 || layer + 1 == num_layers;
    if (!is_lowest) continue;
    const double left = x + grid.label_width, floor = y + grid.panel_height() + 14;
    if (grid.across == 1) {
      add_step_numbers(sheet, step_axis(history, left, grid.panel_width), floor);
    } else {
      sheet.body += text_at(left, floor, "tick from", cat("step ", history.first_step()));
      sheet.body += text_at(left + grid.panel_width, floor, "tick to", cat(history.last_step()));
    }
  }
  sheet.y += stride * static_cast<double>(grid.down) + 26;
}

}  // namespace tessera::draw
