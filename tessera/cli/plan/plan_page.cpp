#include "tessera/cli/plan/plan_page.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/error.hpp"
#include "tessera/draw/panels.hpp"
#include "tessera/draw/svg.hpp"
#include "tessera/families/families.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/planner/search/rates_for.hpp"
#include "tessera/simulate/simulate.hpp"
#include "tessera/spec/choice_names.hpp"

namespace tessera::cli {
namespace {

using draw::xml_escaped;
using planner::Answer;

constexpr double kGiB = 1 << 30;
constexpr double kWidth = 900;

constexpr const char* kColors[] = {"#4269d0", "#6cc5b0", "#9c6b4e", "#ff725c", "#9498a0",
                                   "#efb118", "#ff8ab7", "#3ca951", "#97bbf5", "#a463f2",
                                   "#b5b35c", "#7d5ba6", "#5f9ea0", "#c0c0c0"};

std::string number(double x) { return fixed(x, 1); }

std::string text_svg(double x, double y, const std::string& text, const char* anchor = "start",
                     const char* color = "#222") {
  return cat("<text x='", number(x), "' y='", number(y), "' text-anchor='", anchor, "' fill='", color, "'>",
             xml_escaped(text), "</text>");
}

std::string svg(double height, const std::string& body) {
  return cat("<div class='wide'><svg viewBox='0 0 ", kWidth, " ", number(height),
             "' font-size='12' font-family='system-ui, sans-serif'>", body, "</svg></div>");
}

// A bar is as long as its step takes, and its parts are shares of that.
std::string bar_of(const Answer& answer, double longest) {
  std::string out;
  double positive = 0;
  for (const planner::Part& part : answer.refined.parts) positive += std::max(part.seconds, 0.0);
  for (std::size_t i = 0; i < answer.refined.parts.size(); ++i) {
    const planner::Part& part = answer.refined.parts[i];
    const double width = 100 * std::max(part.seconds, 0.0) / positive * answer.step.seconds / longest;
    if (width > 0)
      out += cat("<i style='width:", fixed(width, 3), "%;background:", kColors[i % std::size(kColors)],
                 "' title='", part.name, " ", fixed(part.seconds, 3), " s'></i>");
  }
  return cat("<div class='bar'>", out, "</div>");
}

std::string bars_of_time(const planner::Plan& plan) {
  double longest = 0;
  for (const Answer& answer : plan.answers) longest = std::max(longest, answer.step.seconds);
  std::string out;
  for (const Answer& answer : plan.answers)
    out += cat("<p class='of'>", xml_escaped(planner::layout_text(answer.refined.candidate.layout)), ": <b>",
               fixed(answer.step.seconds, 3), " s</b></p>", bar_of(answer, longest));
  out += "<p class='key'>Seconds are those of the first. ";
  const auto& parts = plan.answers.front().refined.parts;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (std::ranges::any_of(plan.answers, [&](const Answer& a) { return a.refined.parts[i].seconds > 0; }))
      out += cat("<span><i style='background:", kColors[i % std::size(kColors)], "'></i> ", parts[i].name,
                 " ", fixed(parts[i].seconds, 3), " s</span> ");
  return out + "</p>";
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
      cat("<h2>Scaling, 8 to 16,384 devices</h2><p>The best layout of each size by its bound, which no "
          "layout is below; the "
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
  constexpr std::size_t kMostOps = 4000;  // keeps the page under a megabyte
  const planner::Refined& best = plan.answers.front().refined;
  spec::Run run = best.run;
  const std::int64_t all = run.num_micro_batches(),
                     drawn = std::min(all, std::max<std::int64_t>(4, run.layout.pp));
  run.layout.micro_batches_by_rank.clear();
  run.training.global_batch = drawn * run.layout.dp() * run.layout.micro_batch;
  const program::Program program = plan::compile_unchecked(families::step_request(run));
  std::size_t ops = 0;
  for (const auto& sequence : program.classes) ops += sequence.ops.size();
  if (ops > kMostOps)
    return cat("<p>A step of ", drawn, " micro-batches has ", ops, " ops, too many for one picture.</p>");
  const auto rates = planner::rates_for(best.candidate, plan.cluster, constants, program.tables);
  const auto walked = simulate::simulate(program, simulate::costs_at(rates, program));
  return cat("<div class='wide'>",
             draw::to_svg({.title = cat(planner::layout_text(best.candidate.layout), ": ", drawn, " of ", all,
                                        " micro-batches"),
                           .unit = draw::Unit::seconds,
                           .held = draw::Held::bytes,
                           .panels = {draw::predicted(program, walked, draw::Held::bytes)}}),
             "</div>");
}

std::string answers_table(const planner::Plan& plan) {
  std::string out =
      "<div class='wide'><table><tr><th class='l'>layout</th><th>step s</th><th>80 % interval</th><th>MFU "
      "%</th><th>GiB of "
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
  return out + "</table></div>";
}

}  // namespace

std::string plan_page(const spec::Run& run, const planner::Plan& plan, const planner::Constants& constants,
                      const std::string& name) {
  const std::string title = cat(name, " on ", plan.cluster.name, ", ", plan.cluster.devices(), " devices");
  const spec::Model& m = run.model;
  return cat(
      "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
      "<meta name='viewport' content='width=device-width'><title>",
      xml_escaped(title),
      "</title><style>"
      "body{font-family:system-ui,sans-serif;max-width:1180px;margin:24px auto;padding:0 16px;color:#222;"
      "overflow-wrap:anywhere}.wide{overflow-x:auto}.wide svg{width:100%;min-width:700px}"
      "table{border-collapse:collapse;font-size:13px;width:100%;min-width:900px}td,th{padding:4px "
      "8px;text-align:right;border-bottom:1px solid #ddd;overflow-wrap:normal;"
      "vertical-align:top}.l{text-align:left}tr:nth-child(2){background:#eef3ff}p{line-height:1.45}"
      "h2{margin-top:32px}.bar{display:flex;height:18px}.bar i{display:block;height:100%}.of{margin:10px 0 "
      "2px}"
      ".key span{display:inline-block;margin-right:14px}.key i{display:inline-block;width:11px;height:11px}"
      "</style></head><body><h1>",
      xml_escaped(title), "</h1><p>", spec::word(m.family), ", ", m.blocks(), " blocks of ", m.hidden, ", ",
      m.experts > 0 ? cat(m.experts, " experts, ") : "", "sequences of ", m.sequence, ", ",
      run.training.global_batch, " a step.</p><p>",
      plan.is_searched ? "Best: <b>"
      : plan.fits()    ? "Its own layout: <b>"
                       : "Does not fit: <b>",
      xml_escaped(planner::layout_text(plan.answers.front().refined.candidate.layout)), "</b>. ",
      plan.is_fitted ? "Times by a fitted stack profile." : "Times by data sheets alone.",
      " Nothing here was run.</p>", answers_table(plan),
      plan.too_large.empty() ? "" : cat("<p>", xml_escaped(plan.too_large), ".</p>"), "<p>",
      xml_escaped(planner::certificate_text(plan.certificate)),
      ".</p><h2>Where the time goes</h2><p>Of the rank that computes longest. The parts add up to the "
      "step.</p>",
      bars_of_time(plan), "<h2>Memory by stage</h2>", bars_of_memory(plan), scaling(run, plan, constants),
      "<h2>One step</h2>", timeline(plan, constants), "</body></html>\n");
}

}  // namespace tessera::cli
