#include "tessera/metrics/step_outputs.hpp"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "tessera/base/text.hpp"
#include "tessera/metrics/display.hpp"
#include "tessera/metrics/endpoint.hpp"
#include "tessera/metrics/event_file.hpp"
#include "tessera/metrics/json_lines.hpp"
#include "tessera/metrics/step_line.hpp"
#include "tessera/metrics/terminal.hpp"

namespace tessera::metrics {

namespace {

void print_line(FILE* where, const std::string& line) {
  std::fputs((line + "\n").c_str(), where);
  std::fflush(where);
}

}  // namespace

struct StepOutputs::Parts {
  bool prints_lines = false;
  bool is_silent = false;  // standard output belongs to another
  std::optional<JsonLines> records;
  std::optional<EventFile> events;
  std::optional<Endpoint> endpoint;
  std::optional<Display> display;
};

StepOutputs::StepOutputs(const OutputOptions& options) : parts_(std::make_unique<Parts>()) {
  if (options.prometheus_port) {
    parts_->endpoint.emplace(*options.prometheus_port);
    // Standard output belongs to the JSON object when no lines are wanted.
    print_line(options.lines ? stdout : stderr,
               cat("metrics at http://127.0.0.1:", parts_->endpoint->port(), "/metrics"));
  }
  // What may be refused comes first, what removes an earlier run's numbers last.
  if (!options.folder.empty()) {
    const std::filesystem::path folder(options.folder);
    parts_->events.emplace((folder / "tensorboard").string());
    parts_->records.emplace((folder / "metrics.jsonl").string(), options.kept_steps);
    if (options.kept_steps == 0)
      parts_->events->remove_others();
    else
      parts_->events->write_start(options.kept_steps + 1);
  }
  parts_->is_silent = !options.lines;
  if (!options.lines) return;
  if (is_live_terminal(STDOUT_FILENO)) {
    std::fflush(stdout);
    parts_->display.emplace(options.title, STDOUT_FILENO);
  } else {
    parts_->prints_lines = true;
    print_line(stdout, cat(options.title.about, ", ", options.title.steps, " steps"));
  }
}

StepOutputs::~StepOutputs() = default;

void StepOutputs::add(const StepFacts& facts) {
  if (parts_->prints_lines) print_line(stdout, step_line(facts));
  if (parts_->display) parts_->display->update(facts);
  if (parts_->endpoint) parts_->endpoint->update(facts);
  if (parts_->records) parts_->records->write(record_of(facts));
  if (parts_->events) parts_->events->write(facts);
}

void StepOutputs::tell(const std::string& text) {
  if (parts_->display)
    parts_->display->tell(text);
  else
    print_line(parts_->is_silent ? stderr : stdout, text);
}

}  // namespace tessera::metrics
