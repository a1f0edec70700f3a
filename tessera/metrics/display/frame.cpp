#include "tessera/metrics/display/frame.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/text.hpp"
#include "tessera/metrics/display/curve.hpp"

namespace tessera::metrics {

namespace {

constexpr int kBodyRows = 8, kFactsWidth = 34, kMemoryWidth = 38, kWide = 120, kNarrow = 64, kLabelWidth = 7;
constexpr int kGapWidth = 3;

// Characters that differ between terminals.
struct Glyphs {
  std::string full, empty, point, rule, bar;
};
const Glyphs& glyphs(const Canvas& canvas) {
  static const Glyphs kUnicode = {"━", "─", "·", "│", "■"}, kAscii = {"=", "-", "|", "|", "#"};
  return canvas.unicode ? kUnicode : kAscii;
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

std::string percent(std::optional<double> share) { return share ? cat(fixed(*share * 100, 1), " %") : "-"; }

StyledLine title_line(const Watched& watched, const Canvas& canvas) {
  StyledLine line;
  line.add(watched.title.name, Style::strong)
      .add(cat(" ", glyphs(canvas).point, " ", watched.title.about), Style::faint);
  return line;
}

std::string pace(const Watched& watched) {
  if (!watched.ending.empty()) return watched.ending;
  const double usual = watched.last ? watched.last->step_seconds : 0;
  if (!watched.last || watched.since_step_seconds > 2 * usual + 2)
    return cat("step ", (watched.last ? watched.last->step : 0) + 1, " for ",
               duration_text(watched.since_step_seconds));
  return cat(duration_text(std::max(0.0, watched.last->left_seconds - watched.since_step_seconds)), " left");
}

StyledLine progress_line(const Watched& watched, const Canvas& canvas) {
  const std::int64_t step = watched.last ? watched.last->step : 0,
                     steps = std::max<std::int64_t>(1, watched.title.steps);
  const double share = static_cast<double>(step) / static_cast<double>(steps);
  const std::string percentage = cat(static_cast<int>(share * 100), " %");
  // As wide as it gets, so that the bar keeps its length.
  StyledLine words;
  words.add_right(cat(step), static_cast<int>(cat(steps).size()) + 2, Style::strong);
  words.add(cat("/", steps)).add_right(percentage, 7);
  words.add_right(pace(watched), 16, Style::accent);
  const int width = std::max(8, canvas.width - words.width());
  const int full = static_cast<int>(share * width);
  StyledLine line;
  line.add(repeated(glyphs(canvas).full, full), Style::good);
  line.add(repeated(glyphs(canvas).empty, width - full), Style::faint).add(words);
  return line;
}

// The oldest quarter of a long run is left out: its cliff would flatten all that follows.
std::size_t first_drawn(std::size_t num_losses, int width) {
  return num_losses > static_cast<std::size_t>(2 * width) ? num_losses / 4 : 0;
}

std::vector<StyledLine> loss_panel(const Watched& watched, const Canvas& canvas, int width) {
  const int curve_width = std::max(8, width - kLabelWidth);
  const std::size_t first = first_drawn(watched.losses.size(), curve_width);
  const auto curve =
      draw_curve(std::span(watched.losses).subspan(first), curve_width, kBodyRows - 1, canvas.unicode);
  std::vector<StyledLine> lines(1);
  lines[0].add("loss ", Style::faint).add(watched.last ? fixed(watched.last->loss, 4) : "-", Style::strong);
  if (!watched.losses.empty()) {
    const std::string range = cat("steps ", first + 1, " to ", watched.losses.size());
    lines[0].pad_to(width - columns(range)).add(range, Style::faint);
  }
  for (std::size_t row = 0; row < curve.rows.size(); ++row) {
    const bool top = row == 0, bottom = row + 1 == curve.rows.size();
    const std::string label = watched.losses.empty() ? ""
                              : top                  ? fixed(curve.most, 2)
                              : bottom               ? fixed(curve.least, 2)
                                                     : "";
    lines.emplace_back()
        .add_right(label, kLabelWidth - 1, Style::faint)
        .add(" ")
        .add(curve.rows[row], Style::accent);
  }
  return lines;
}

std::vector<StyledLine> facts_panel(const Watched& watched) {
  const StepFacts facts = watched.last.value_or(StepFacts{});
  const auto shown = [&](const std::string& text) { return watched.last ? text : "-"; };
  const bool skipped = facts.steps_not_taken > 0;
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"tokens/s", shown(count_text(facts.tokens_per_second()))},
      {"seconds a step", shown(fixed(facts.step_seconds, 3))},
      {"model FLOP utilisation", percent(facts.model_utilisation())},
      {"hardware FLOP utilisation", percent(facts.hardware_utilisation())},
      {"exposed communication", shown(percent(facts.exposed_share()))},
      {"gradient norm", shown(fixed(facts.gradient_norm, 3))},
      {"learning rate", shown(scientific(facts.learning_rate, 2))},
      {"steps not taken", shown(cat(facts.steps_not_taken))}};
  std::vector<StyledLine> lines;
  for (const auto& [label, value] : rows) {
    const bool warns = skipped && label == "steps not taken";
    StyledLine& line = lines.emplace_back();
    line.add(label, Style::faint)
        .add_right(value, kFactsWidth - columns(label), warns ? Style::warning : Style::plain);
  }
  return lines;
}

StyledLine memory_of_rank(std::size_t rank, std::int64_t bytes, double share, int width,
                          const Canvas& canvas) {
  const std::string label = cat("rank ", rank), value = bytes_text(static_cast<double>(bytes));
  const int room = std::max(1, width - columns(label) - 12);
  const int full = std::clamp(static_cast<int>(std::lround(share * room)), 1, room);
  StyledLine line;
  line.add(label, Style::faint).add(" ").add(repeated(glyphs(canvas).bar, full), Style::good);
  line.pad_to(columns(label) + 1 + room);
  return line.add_right(value, 11);
}

// A bar for each rank, against the one that holds most.
std::vector<StyledLine> memory_panel(const StepFacts& facts, const Canvas& canvas) {
  std::vector<StyledLine> lines(1);
  lines[0].add("memory", Style::faint);
  const double most = std::max<double>(1, static_cast<double>(facts.resident_quantile(1)));
  for (std::size_t rank = 0; rank < facts.resident_bytes.size(); ++rank) {
    const std::int64_t bytes = facts.resident_bytes[rank];
    lines.push_back(memory_of_rank(rank, bytes, static_cast<double>(bytes) / most, kMemoryWidth, canvas));
  }
  return lines;
}

std::string bytes_at(const StepFacts& facts, double q) {
  return bytes_text(static_cast<double>(facts.resident_quantile(q)));
}

StyledLine memory_line(const StepFacts& facts) {
  StyledLine line;
  line.add("memory  ", Style::faint);
  if (facts.resident_bytes.size() <= 3) {
    for (std::size_t rank = 0; rank < facts.resident_bytes.size(); ++rank)
      line.add(cat(rank ? "   " : "", "rank ", rank, " "), Style::faint)
          .add(bytes_text(static_cast<double>(facts.resident_bytes[rank])));
    return line;
  }
  line.add("least ", Style::faint).add(bytes_at(facts, 0)).add("   median ", Style::faint);
  line.add(bytes_at(facts, 0.5)).add("   most ", Style::faint).add(bytes_at(facts, 1));
  return line.add(cat("   of ", facts.resident_bytes.size(), " ranks"), Style::faint);
}

// Panels side by side, a rule between them.
std::vector<StyledLine> beside(const std::vector<std::vector<StyledLine>>& panels,
                               const std::vector<int>& widths, const Canvas& canvas) {
  std::vector<StyledLine> lines(kBodyRows);
  for (int row = 0; row < kBodyRows; ++row) {
    StyledLine& line = lines[static_cast<std::size_t>(row)];
    int edge = 0;
    for (std::size_t i = 0; i < panels.size(); ++i) {
      if (i > 0) line.pad_to(edge).add(cat(" ", glyphs(canvas).rule, " "), Style::faint), edge += kGapWidth;
      if (static_cast<std::size_t>(row) < panels[i].size())
        line.add(panels[i][static_cast<std::size_t>(row)]);
      edge += widths[i];
    }
  }
  return lines;
}

std::string flops_text(double flops_per_second) {
  return flops_per_second < 1e12 ? cat(fixed(flops_per_second / 1e9, 1), " GFLOP/s")
                                 : cat(fixed(flops_per_second / 1e12, 1), " TFLOP/s");
}

StyledLine foot_line(const Watched& watched, const Canvas& canvas) {
  std::vector<std::string> parts;
  if (watched.last && watched.last->peak_flops_per_second > 0)
    parts.push_back(
        cat("100 % = ",
            flops_text(watched.last->peak_flops_per_second / static_cast<double>(watched.title.ranks)),
            " a rank (", watched.title.peak_source, ")"));
  if (!watched.title.place.empty()) parts.push_back(watched.title.place);
  StyledLine line;
  return line.add(join(parts, cat(" ", glyphs(canvas).point, " ")), Style::faint);
}

}  // namespace

std::vector<StyledLine> frame(const Watched& watched, const Canvas& canvas) {
  const bool has_memory = watched.last && !watched.last->resident_bytes.empty();
  const bool wide = canvas.width >= kWide && has_memory && watched.last->resident_bytes.size() < kBodyRows;
  std::vector<StyledLine> lines = {title_line(watched, canvas), progress_line(watched, canvas), {}};
  if (canvas.width < kNarrow) {
    lines.pop_back();
    StyledLine loss;
    lines.push_back(loss.add("loss ", Style::faint)
                        .add(watched.last ? fixed(watched.last->loss, 4) : "-", Style::strong));
    for (const StyledLine& fact : facts_panel(watched)) lines.push_back(fact);
  } else {
    const int side = kGapWidth + kFactsWidth + (wide ? kGapWidth + kMemoryWidth : 0);
    const int loss_width = canvas.width - side;
    std::vector<std::vector<StyledLine>> panels = {loss_panel(watched, canvas, loss_width),
                                                   facts_panel(watched)};
    if (wide) panels.push_back(memory_panel(*watched.last, canvas));
    for (StyledLine& line : beside(panels, {loss_width, kFactsWidth, kMemoryWidth}, canvas))
      lines.push_back(line);
    lines.emplace_back();
  }
  if (!wide && has_memory) lines.push_back(memory_line(*watched.last));
  lines.push_back(foot_line(watched, canvas));
  if (!watched.note.empty()) lines.push_back(StyledLine().add(watched.note));
  if (static_cast<int>(lines.size()) >= canvas.height)
    lines.resize(static_cast<std::size_t>(std::max(1, canvas.height - 1)));
  return lines;
}

}  // namespace tessera::metrics
