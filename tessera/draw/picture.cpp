#include "tessera/draw/picture.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/text.hpp"

namespace tessera::draw {
namespace {

using program::OpKind;

void measure(Lanes& rank) {
  rank.busy = rank.peak_held = 0;
  for (Row& row : rank.rows) {
    std::ranges::stable_sort(row.bars, {}, &Bar::start);
    if (row.kind != program::LaneKind::compute) continue;
    for (const Bar& bar : row.bars)
      if (program::is_compute(bar.what)) rank.busy += bar.end - bar.start;
  }
  for (const Level& level : rank.held) rank.peak_held = std::max(rank.peak_held, level.held);
}

// Three digits that count, none of them a useless zero.
std::string short_number(double x) {
  if (x == 0) return "0";
  const int whole = static_cast<int>(std::floor(std::log10(std::abs(x)))) + 1;
  std::string out = fixed(x, std::clamp(3 - whole, 0, 6));
  if (out.find('.') == out.npos) return out;
  out.erase(out.find_last_not_of('0') + 1);
  if (out.back() == '.') out.pop_back();
  return out;
}

}  // namespace

double Panel::bubble() const {
  double busy = 0, all = 0;
  for (const Lanes& rank : ranks) {
    busy += rank.busy * static_cast<double>(rank.num_ranks);
    all += makespan * static_cast<double>(rank.num_ranks);
  }
  return all > 0 ? 1 - busy / all : 0;
}

double Panel::peak_held() const {
  double peak = 0;
  for (const Lanes& rank : ranks) peak = std::max(peak, rank.peak_held);
  return peak;
}

void measure(Panel& panel) {
  panel.makespan = panel.end = 0;
  for (Lanes& rank : panel.ranks) {
    measure(rank);
    for (const Row& row : rank.rows)
      for (const Bar& bar : row.bars) {
        panel.end = std::max(panel.end, bar.end);
        if (program::is_compute(bar.what)) panel.makespan = std::max(panel.makespan, bar.end);
      }
  }
}

std::vector<Level> held_activations(const Row& compute) {
  std::vector<Level> changes;
  for (const Bar& bar : compute.bars) {
    if (bar.what == OpKind::forward) changes.push_back({bar.start, 1});
    if (bar.what == OpKind::backward || bar.what == OpKind::backward_weight) changes.push_back({bar.end, -1});
  }
  // What ends at a time makes room for what starts then.
  std::ranges::stable_sort(changes, [](const Level& a, const Level& b) {
    return std::pair(a.time, a.held) < std::pair(b.time, b.held);
  });
  double held = 0;
  for (Level& level : changes) level.held = held += level.held;
  return changes;
}

std::string time_text(double time, Unit unit) {
  if (unit == Unit::of_costs) {
    std::string out = fixed(time, 3);
    out.erase(out.find_last_not_of('0') + 1);
    if (out.back() == '.') out.pop_back();
    return out;
  }
  const double size = std::abs(time);
  if (size >= 1 || size == 0) return short_number(time) + " s";
  return size >= 1e-3 ? short_number(time * 1e3) + " ms" : short_number(time * 1e6) + " us";
}

std::string held_text(double held, Held kind) { return kind == Held::bytes ? bytes_text(held) : cat(held); }

std::string numbers_text(const Picture& picture, const Panel& panel) {
  return cat("makespan ", time_text(panel.makespan, picture.unit), ", bubble ",
             fixed(100 * panel.bubble(), 1), " %, at most ", held_text(panel.peak_held(), picture.held),
             picture.held == Held::bytes ? "" : " activations", " held");
}

}  // namespace tessera::draw
