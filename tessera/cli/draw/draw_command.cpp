#include <cstdio>
#include <filesystem>
#include <optional>

#include "tessera/base/error.hpp"
#include "tessera/cli/commands/simulated.hpp"
#include "tessera/cli/draw/draw_commands.hpp"
#include "tessera/cli/draw/traced.hpp"
#include "tessera/draw/compare.hpp"
#include "tessera/draw/html.hpp"
#include "tessera/draw/panels.hpp"
#include "tessera/draw/svg.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/metrics/out_file.hpp"
#include "tessera/plan/identity.hpp"
#include "tessera/program/check/unroll.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::cli {
namespace {

using draw::Panel;
using draw::Picture;

constexpr std::uint32_t kStepsInPicture = 2;  // of steps that overlap

Panel measured_panel(const std::vector<draw::Traced>& traced, const std::string& path, std::int64_t step) {
  const std::int64_t chosen = step > 0 ? step : draw::middle_step(traced);
  const bool overlap = draw::steps_overlap(traced);
  Panel panel = draw::measured(traced, chosen, overlap ? kStepsInPicture : 1);
  panel.title =
      overlap ? cat("measured, steps ", chosen, " and ", chosen + 1) : cat("measured, step ", chosen);
  if (panel.ranks.empty())
    throw UserError(cat("trace '", path, "' has no step ", step, "; take another --step, or leave it out"));
  return panel;
}

// The trace of a run with other ops or sizes would be compared op by op with what it never did.
void expect_trace_of(const program::Program& program, const std::string& found, const Options& options) {
  if (found != plan::fingerprint(program))
    throw UserError(
        cat("--measured ", options.draw.measured, ": ",
            found.empty() ? "does not say of which run it is"
                          : cat("is the trace of another run than ", options.file),
            ". Draw a trace that tessera train --trace has written of this run file with the same "
            "layout and model."));
}

Panel predicted_panel(const Simulated& simulated, draw::Held held) {
  if (!simulated.program.tables.steps_overlap)
    return draw::predicted(simulated.program, simulate::simulate(simulated.program, simulated.costs), held);
  const program::Steps steps = program::unrolled(simulated.program, kStepsInPicture);
  return draw::predicted(steps.program,
                         simulate::simulate(steps.program, simulate::repeated(simulated.costs, steps)), held);
}

Picture predicted_picture(const Simulated& simulated, draw::Held held) {
  Picture out{.title = title_of(simulated),
              .unit = simulated.is_in_seconds ? draw::Unit::seconds : draw::Unit::of_costs,
              .held = held,
              .panels = {predicted_panel(simulated, held)}};
  if (simulated.program.tables.steps_overlap)
    out.notes.push_back(
        "The first two steps, which overlap: the second begins while the first is under way.");
  if (!simulated.note.empty()) out.notes.push_back(simulated.note);
  out.notes.push_back(cat("Costs: ", simulated.costs_text));
  return out;
}

// Without a prediction: of a trace alone.
Picture picture_of(const Options& options, const std::optional<Simulated>& simulated) {
  if (!simulated)
    return {.title = std::filesystem::path(options.file).filename().string(),
            .unit = draw::Unit::seconds,
            .panels = {measured_panel(read_traced(options.file).ops, options.file, options.draw.step)}};
  const bool compares = !options.draw.measured.empty();
  if (compares && !simulated->is_in_seconds)
    throw UserError(
        "--measured is compared with the prediction of a run file, which has seconds: name the file too");
  const bool in_bytes = simulated->is_in_seconds && !compares;  // a trace doesn't know bytes
  Picture out = predicted_picture(*simulated, in_bytes ? draw::Held::bytes : draw::Held::activations);
  if (compares) {
    const TracedRun traced = read_traced(options.draw.measured);
    expect_trace_of(simulated->program, traced.program, options);
    out.panels.push_back(measured_panel(traced.ops, options.draw.measured, options.draw.step));
    out.notes.push_back(
        "Where ranks meet, a measured op counts from when its own rank has come; a predicted one from "
        "when all have.");
  }
  return out;
}

std::string default_out(const Options& options) {
  const std::string stem =
      options.file.empty() ? options.simulate.schedule : std::filesystem::path(options.file).stem().string();
  return stem + ".svg";
}

std::string drawn(const Picture& picture, const std::optional<Simulated>& simulated,
                  const std::string& path) {
  if (path.ends_with(".txt") && simulated) {
    if (!simulated->run)
      throw UserError(cat("-o ", path,
                          ": a schedule by itself has no run, without which its ops can't be read back. ",
                          "Draw a run file instead: tessera draw run.toml -o ", path));
    return program_file(*simulated);
  }
  if (path.ends_with(".svg")) return draw::to_svg(picture);
  if (path.ends_with(".html")) return draw::to_html(picture);
  throw UserError(
      cat("-o ", path, ": wants a name that ends in .svg or .html, or .txt for the ops of a program"));
}

std::vector<std::int64_t> sends(const Panel& panel) {
  std::vector<std::int64_t> out;
  for (const draw::Lanes& rank : panel.ranks) {
    std::int64_t& count = out.emplace_back();
    for (const draw::Row& row : rank.rows)
      for (const draw::Bar& bar : row.bars) count += bar.what == program::OpKind::send;
  }
  return out;
}

metrics::Record to_record(const Panel& panel) {
  std::vector<double> busy, held;
  for (const draw::Lanes& rank : panel.ranks) {
    busy.push_back(rank.busy);
    held.push_back(rank.peak_held);
  }
  return {
      {"title", panel.title}, {"makespan", panel.makespan}, {"bubble", panel.bubble()}, {"peak_held", held},
      {"busy", busy},         {"sends", sends(panel)}};
}

std::vector<metrics::Record> to_records(const std::vector<draw::Compared>& rows) {
  std::vector<metrics::Record> out;
  for (const auto& row : rows)
    out.push_back({{"name", row.name}, {"predicted", row.predicted}, {"measured", row.measured}});
  return out;
}

std::string to_text(const draw::Comparison& compared) {
  std::vector<std::vector<std::string>> rows = {{"", "predicted", "measured", "difference"}};
  for (const auto* part : {&compared.ranks, &compared.kinds})
    for (const auto& row : *part)
      rows.push_back({row.name, draw::time_text(row.predicted, draw::Unit::seconds),
                      draw::time_text(row.measured, draw::Unit::seconds), draw::difference_text(row)});
  return table(rows);
}

}  // namespace

int draw_command(const Options& options) {
  if (options.draw.layout && !options.draw.experts) return draw_layout_command(options);
  const std::string path = options.draw.out.empty() ? default_out(options) : options.draw.out;
  if (options.draw.experts) return draw_experts_command(options, path);
  if (options.draw.memory) return draw_memory_command(options, path);
  if (options.file.ends_with(".jsonl"))
    throw UserError(cat(options.file, ": is drawn with --experts: tessera draw --experts ", options.file));
  std::optional<Simulated> simulated;
  if (!is_trace(options.file)) simulated = simulated_of(options);
  const Picture picture = picture_of(options, simulated);
  const std::string text = drawn(picture, simulated, path);  // before the file is emptied
  metrics::OutFile(path, "-o").write(text);
  const bool compares = picture.panels.size() == 2;
  const auto compared = compares ? draw::compare(picture.panels[0], picture.panels[1]) : draw::Comparison{};
  if (options.json) {
    std::vector<metrics::Record> panels;
    for (const Panel& panel : picture.panels) panels.push_back(to_record(panel));
    metrics::Record out = {{"file", path}, {"panels", panels}};
    if (compares) {
      out.push_back({"ranks", to_records(compared.ranks)});
      out.push_back({"kinds", to_records(compared.kinds)});
    }
    std::puts(metrics::json_object(out).c_str());
    return 0;
  }
  for (const Panel& panel : picture.panels)
    std::puts(cat(picture.title, ", ", panel.title, ": ", draw::numbers_text(picture, panel)).c_str());
  if (compares) std::fputs(to_text(compared).c_str(), stdout);
  std::puts(cat("drawn in ", path).c_str());
  return 0;
}

}  // namespace tessera::cli
