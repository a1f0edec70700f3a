#include "tessera/cli/plan/plan_page.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.hpp"
#include "tessera/draw/panels.hpp"
#include "tessera/draw/svg.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::cli {
namespace {

using draw::xml_escaped;
using planner::Answer;

constexpr double kGiB = 1 << 30;
constexpr double kWidth = 900;

struct Share {
  const char* name;
  const char* color;
  double seconds;
};

std::vector<Share> shares(const planner::Estimate& e) {
  return {{"products", "#4269d0", e.products},
          {"attention", "#6cc5b0", e.attention},
          {"element-wise", "#97bbf5", e.elementwise},
          {"head and loss", "#a463f2", e.head},
          {"recomputation", "#9c6b4e", e.recompute},
          {"tensor collectives", "#ff725c", e.tensor},
          {"context and experts", "#efb118", e.context + e.experts},
          {"bubble and sends", "#9498a0", e.bubble + e.sends},
          {"data parallelism", "#ff8ab7", e.data},
          {"optimizer and fixed", "#3ca951", e.optimizer + e.fixed}};
}

std::string number(double x) { return fixed(x, 1); }

std::string text_svg(double x, double y, const std::string& text, const char* anchor = "start",
                     const char* color = "#222") {
  return cat("<text x='", number(x), "' y='", number(y), "' text-anchor='", anchor, "' fill='", color, "'>",
             xml_escaped(text), "</text>");
}

std::string svg(double height, const std::string& body) {
  return cat("<svg viewBox='0 0 ", kWidth, " ", number(height),
             "' width='100%' font-size='12' font-family='system-ui, sans-serif'>", body, "</svg>");
}

std::string bars_of_time(const planner::Plan& plan) {
  constexpr double kLeft = 20, kBar = 18, kRow = 46;
  double longest = 0;
  for (const Answer& answer : plan.answers) {
    double sum = 0;
    for (const Share& share : shares(answer.refined.candidate.estimate)) sum += share.seconds;
    longest = std::max(longest, sum);
  }
  std::string body;
  double y = 14;
  for (const Answer& answer : plan.answers) {
    body += text_svg(kLeft, y, planner::layout_text(answer.refined.candidate.layout));
    double x = kLeft;
    const auto& e = answer.refined.candidate.estimate;
    for (const Share& share : shares(e)) {
      const double width = share.seconds / longest * (kWidth - 2 * kLeft - 70);
      if (width > 0)
        body += cat("<rect x='", number(x), "' y='", number(y + 5), "' width='", number(width), "' height='",
                    kBar, "' fill='", share.color, "'><title>", share.name, " ", fixed(share.seconds, 3),
                    " s</title></rect>");
      x += width;
    }
    body += text_svg(x + 6, y + 19, cat(fixed(answer.step.seconds, 2), " s"));
    y += kRow;
  }
  double x = kLeft;
  for (const Share& share : shares(plan.answers.front().refined.candidate.estimate)) {
    const double width = 30 + 6.6 * static_cast<double>(std::string_view(share.name).size());
    if (x + width > kWidth) x = kLeft, y += 18;
    body += cat("<rect x='", number(x), "' y='", number(y), "' width='11' height='11' fill='", share.color,
                "'/>");
    body += text_svg(x + 15, y + 10, share.name);
    x += width;
  }
  return svg(y + 22, body);
}

std::string bars_of_memory(const planner::Plan& plan) {
  constexpr double kLeft = 60, kHeight = 170, kTop = 16;
  const auto& peaks = plan.answers.front().refined.peak_bytes;
  const double most = std::max(plan.limit_bytes, *std::ranges::max_element(peaks)) * 1.08;
  const double step = (kWidth - kLeft - 20) / static_cast<double>(peaks.size());
  const auto y_of = [&](double bytes) { return kTop + kHeight * (1 - bytes / most); };
  std::string body;
  const std::size_t every = std::max<std::size_t>(1, peaks.size() / 24);
  for (std::size_t i = 0; i < peaks.size(); ++i) {
    const double x = kLeft + step * static_cast<double>(i);
    body += cat("<rect x='", number(x + step * 0.1), "' y='", number(y_of(peaks[i])), "' width='",
                number(step * 0.8), "' height='", number(kTop + kHeight - y_of(peaks[i])),
                "' fill='#4269d0'><title>", fixed(peaks[i] / kGiB, 2), " GiB</title></rect>");
    if (i % every == 0) {
      body += text_svg(x + step / 2, kTop + kHeight + 16, cat(i), "middle");
      if (peaks.size() <= 24)
        body += text_svg(x + step / 2, y_of(peaks[i]) - 4, fixed(peaks[i] / kGiB, 1), "middle");
    }
  }
  body += cat("<line x1='", kLeft, "' x2='", kWidth - 20, "' y1='", number(y_of(plan.limit_bytes)), "' y2='",
              number(y_of(plan.limit_bytes)), "' stroke='#d33' stroke-dasharray='5 3'/>");
  body += text_svg(kWidth - 20, y_of(plan.limit_bytes) - 4,
                   cat("limit ", fixed(plan.limit_bytes / kGiB, 1), " GiB"), "end", "#d33");
  body +=
      text_svg(4, kTop + 10, "GiB") + text_svg(kLeft, kTop + kHeight + 34, "class of equal ranks (stage)");
  return svg(kTop + kHeight + 44, body);
}

struct Point {
  double x, y;
  std::string label;
};

// On logarithmic axes; `ideal` is drawn from the first point with slope 1.
std::string curve(const std::vector<Point>& points, const char* across, const char* up, bool ideal) {
  constexpr double kLeft = 90, kHeight = 260, kTop = 20, kRight = 40;
  double x0 = 1e300, x1 = 0, y0 = 1e300, y1 = 0;
  for (const Point& p : points)
    x0 = std::min(x0, p.x), x1 = std::max(x1, p.x), y0 = std::min(y0, p.y), y1 = std::max(y1, p.y);
  if (ideal) y1 = std::max(y1, points.front().y * x1 / points.front().x);
  x1 = std::max(x1, x0 * 1.01) * 1.15, x0 /= 1.15, y1 = std::max(y1, y0 * 1.01) * 1.3, y0 /= 1.3;
  const auto x_of = [&](double x) {
    return kLeft + (kWidth - kLeft - kRight) * std::log(x / x0) / std::log(x1 / x0);
  };
  const auto y_of = [&](double y) { return kTop + kHeight * (1 - std::log(y / y0) / std::log(y1 / y0)); };
  std::string body;
  for (double grid = std::pow(10, std::floor(std::log10(y0))); grid <= y1; grid *= 10)
    for (const double times : {1.0, 2.0, 5.0})
      if (const double y = grid * times; y >= y0 && y <= y1)
        body += cat("<line x1='", kLeft, "' x2='", kWidth - kRight, "' y1='", number(y_of(y)), "' y2='",
                    number(y_of(y)), "' stroke='#e4e4e4'/>") +
                text_svg(kLeft - 6, y_of(y) + 4, count_text(y), "end", "#666");
  for (double grid = std::pow(10, std::floor(std::log10(x0))); grid <= x1; grid *= 10)
    for (const double times : {1.0, 2.0, 5.0})
      if (const double x = grid * times; x >= x0 && x <= x1)
        body += text_svg(x_of(x), kTop + kHeight + 14, count_text(x), "middle", "#666");
  if (ideal) {
    const double last = points.back().x, y = points.front().y * last / points.front().x;
    body +=
        cat("<line x1='", number(x_of(points.front().x)), "' y1='", number(y_of(points.front().y)), "' x2='",
            number(x_of(last)), "' y2='", number(y_of(y)), "' stroke='#999' stroke-dasharray='4 4'/>");
  }
  std::string line;
  for (const Point& p : points) line += cat(number(x_of(p.x)), ",", number(y_of(p.y)), " ");
  body += cat("<polyline points='", line, "' fill='none' stroke='#4269d0' stroke-width='2'/>");
  bool is_above = true;
  for (const Point& p : points) {
    body += cat("<circle cx='", number(x_of(p.x)), "' cy='", number(y_of(p.y)),
                "' r='4' fill='#4269d0'><title>", xml_escaped(p.label), "</title></circle>");
    body += text_svg(x_of(p.x), y_of(p.y) + (is_above ? -9 : 18), p.label.substr(0, p.label.find('\n')),
                     "middle");
    is_above = !is_above;
  }
  body += text_svg(kLeft + (kWidth - kLeft - kRight) / 2, kTop + kHeight + 30, across, "middle") +
          text_svg(4, 12, up);
  return svg(kTop + kHeight + 40, body);
}

std::string scaling(const spec::Run& run, const planner::Plan& plan, const planner::Constants& constants) {
  std::vector<double> sizes;
  for (double devices = 8; devices <= 16384; devices *= 2) sizes.push_back(devices);
  const auto scaled = planner::scaled(run, plan.cluster, constants, sizes, plan.tokens);
  if (scaled.size() < 2) return "<p>Of these sizes at most one holds the model with this batch.</p>";
  std::vector<Point> speed, price;
  const double dollars = plan.cluster.dollars_per_hour();
  for (const auto& one : scaled) {
    speed.push_back({one.devices, one.tokens_per_second, cat(one.devices, "\n", one.layout)});
    price.push_back({one.length.days, one.cost(), cat(one.devices, "\n", one.layout)});
  }
  std::string out =
      cat("<h2>Scaling, 8 to 16,384 devices</h2><p>The best layout of each size by the closed form; the "
          "batch stays. "
          "Dashed: no loss.</p>",
          curve(speed, "devices", "tokens/s", true));
  out += cat("<h2>Time against ", dollars > 0 ? "cost" : "device hours",
             "</h2><p>Each point is the best layout on so many devices: the "
             "front to choose from.</p>",
             curve(price, "days", dollars > 0 ? "dollars" : "device hours", false));
  return out;
}

std::string timeline(const planner::Plan& plan, const planner::Constants& constants) {
  constexpr std::size_t kMostOps = 60000;
  const planner::Refined& best = plan.answers.front().refined;
  spec::Run run = best.run;
  const std::int64_t all = run.num_micro_batches(),
                     drawn = std::min(all, std::max<std::int64_t>(4, run.layout.pp));
  run.layout.micro_batches_by_rank.clear();
  run.training.global_batch = drawn * run.layout.dp() * run.layout.micro_batch;
  const program::Program program = plan::compile_unchecked(run);
  std::size_t ops = 0;
  for (const auto& sequence : program.classes) ops += sequence.ops.size();
  if (ops > kMostOps)
    return cat("<p>A step of ", drawn, " micro-batches has ", ops, " ops, too many for one picture.</p>");
  const auto rates = planner::rates_for(best.candidate, plan.cluster, constants, program.tables);
  const auto walked = simulate::simulate(program, simulate::costs_at(rates, program));
  return draw::to_svg(
      {.title = cat(planner::layout_text(best.candidate.layout), ": ", drawn, " of ", all, " micro-batches"),
       .unit = draw::Unit::seconds,
       .held = draw::Held::bytes,
       .panels = {draw::predicted(program, walked, draw::Held::bytes)}});
}

std::string answers_table(const planner::Plan& plan) {
  std::string out =
      "<table><tr><th class='l'>layout</th><th>step s</th><th>80 % interval</th><th>MFU %</th><th>GiB of "
      "limit</th><th>bubble %</th><th>tokens/s</th><th>days</th><th>dollars</th><th class='l'>why it "
      "loses</th></tr>";
  for (const Answer& a : plan.answers)
    out +=
        cat("<tr><td class='l'>", xml_escaped(planner::layout_text(a.refined.candidate.layout)), "</td><td>",
            fixed(a.step.seconds, 3), "</td><td>", fixed(a.step.low, 2), " to ", fixed(a.step.high, 2),
            "</td><td>", fixed(100 * a.mfu, 1), "</td><td>", fixed(a.refined.most_bytes() / kGiB, 1), " / ",
            fixed(plan.limit_bytes / kGiB, 1), "</td><td>", fixed(100 * a.refined.bubble, 1), "</td><td>",
            count_text(a.tokens_per_second), "</td><td>", fixed(a.length.days, 2), "</td><td>",
            a.length.dollars > 0 ? count_text(a.length.dollars) : "-", "</td><td class='l'>",
            xml_escaped(a.why_it_loses), "</td></tr>");
  return out + "</table>";
}

}  // namespace

std::string plan_page(const spec::Run& run, const planner::Plan& plan, const planner::Constants& constants) {
  return cat(
      "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>plan</title><style>"
      "body{font-family:system-ui,sans-serif;max-width:1180px;margin:24px auto;padding:0 16px;color:#222}"
      "table{border-collapse:collapse;font-size:13px;width:100%}td,th{padding:4px "
      "8px;text-align:right;border-bottom:1px solid #ddd;"
      "vertical-align:top}.l{text-align:left}tr:nth-child(2){background:#eef3ff}p{line-height:1.45}h2{margin-"
      "top:32px}</style></head><body><h1>",
      xml_escaped(plan.cluster.name), ": ", plan.cluster.devices(), " devices</h1><p>Best: <b>",
      xml_escaped(planner::layout_text(plan.answers.front().refined.candidate.layout)), "</b>. ",
      plan.is_fitted ? "Times by a fitted stack profile." : "Times by data sheets alone.",
      " Nothing here was run.</p>", answers_table(plan),
      plan.too_large.empty() ? "" : cat("<p>", xml_escaped(plan.too_large), ".</p>"), "<p>",
      xml_escaped(planner::certificate_text(plan.certificate)),
      ".</p><h2>Where the time goes</h2><p>Parts by the closed form, on the rank that has them; they "
      "overlap, so they may add up to more than the step beside them.</p>",
      bars_of_time(plan), "<h2>Memory by stage</h2>", bars_of_memory(plan), scaling(run, plan, constants),
      "<h2>One step</h2>", timeline(plan, constants), "</body></html>\n");
}

}  // namespace tessera::cli
