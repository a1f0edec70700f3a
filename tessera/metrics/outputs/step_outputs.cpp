#include "tessera/metrics/outputs/step_outputs.hpp"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "tessera/base/clock.hpp"
#include "tessera/base/files/queued_writer.hpp"
#include "tessera/base/process/host_name.hpp"
#include "tessera/base/text.hpp"
#include "tessera/metrics/display/display.hpp"
#include "tessera/metrics/display/step_line.hpp"
#include "tessera/metrics/display/terminal.hpp"
#include "tessera/metrics/outputs/endpoint.hpp"
#include "tessera/metrics/outputs/event_file.hpp"
#include "tessera/metrics/outputs/json_lines.hpp"

namespace tessera::metrics {

namespace {

// Standard output, or standard error where standard output belongs to the JSON object.
QueuedWriter::Options written_to(const OutputOptions& options) {
  const auto warn = [options] {
    const std::string text = cat(
        "warning: standard ", options.lines ? "output" : "error", " has taken nothing for ",
        fixed(options.patience_seconds, 1),
        " s (a pipe that nobody reads? a terminal stopped by Ctrl-S?); training goes on, its lines wait\n");
    if (options.lines) std::fputs(text.c_str(), stderr);
  };
  return {.descriptor = options.lines ? STDOUT_FILENO : STDERR_FILENO,
          .blocked_after_seconds = options.patience_seconds,
          .on_blocked = warn};
}

}  // namespace

struct StepOutputs::Parts {
  explicit Parts(const OutputOptions& options)
      : run(options.title.name), patience_seconds(options.patience_seconds), lines(written_to(options)) {}

  bool prints_lines = false;
  const std::string run, host = host_name();
  const double patience_seconds;
  QueuedWriter lines;
  std::optional<JsonLines> records;
  std::optional<EventFile> events;
  std::optional<Endpoint> endpoint;
  std::optional<Display> display;

  // With when, where and of which run it was, to milliseconds.
  Record record_of_step(const StepFacts& facts) const {
    Record out = record_of(facts);
    out.insert(out.begin() + 1,
               {{"time", std::round(wall_seconds() * 1000) / 1000}, {"run", run}, {"host", host}});
    return out;
  }

  std::vector<RecordFile*> files() {
    std::vector<RecordFile*> out;
    if (records) out.push_back(&records->file());
    if (events) out.push_back(&events->file());
    return out;
  }
};

StepOutputs::StepOutputs(const OutputOptions& options) : parts_(std::make_unique<Parts>(options)) {
  if (options.listen) {
    ListenAddress address = *options.listen;
    parts_->endpoint.emplace(address);
    address.port = parts_->endpoint->port();
    parts_->lines.write(cat("metrics at http://", to_text(address), "/metrics\n"));
  }
  // What may be refused comes first, what changes an earlier run's numbers last.
  if (!options.folder.empty()) {
    const std::filesystem::path folder(options.folder);
    parts_->events.emplace((folder / "tensorboard").string());
    parts_->records.emplace((folder / "metrics.jsonl").string(), options.kept_steps);
    if (options.kept_steps > 0 || parts_->events->has_others())
      parts_->events->write_start(options.kept_steps + 1);
  }
  if (!options.lines) return;
  if (is_live_terminal(STDOUT_FILENO)) {
    parts_->lines.wait(options.patience_seconds / 2);
    parts_->display.emplace(options.title, STDOUT_FILENO);
  } else {
    parts_->prints_lines = true;
    parts_->lines.write(cat(options.title.about, ", ", options.title.steps, " steps\n"));
  }
}

// What waits is given half of the time after which a rank counts as hung.
StepOutputs::~StepOutputs() {
  if (!parts_->lines.wait(parts_->patience_seconds / 2) && parts_->prints_lines)
    std::fputs("warning: standard output takes nothing; the last lines of this run are lost\n", stderr);
}

void StepOutputs::add(const StepFacts& facts) {
  if (parts_->prints_lines) parts_->lines.write(step_line(facts) + "\n");
  if (parts_->display) parts_->display->update(facts);
  if (parts_->endpoint) parts_->endpoint->update(facts);
  if (parts_->records) parts_->records->write(facts.step, parts_->record_of_step(facts));
  if (parts_->events) parts_->events->write(facts);
  tell_news();
}

std::vector<std::string> StepOutputs::finish() {
  std::vector<std::string> out;
  for (RecordFile* file : parts_->files()) {
    file->finish();
    if (const std::string lack = file->incomplete(); !lack.empty()) out.push_back(lack);
  }
  tell_news();
  return out;
}

void StepOutputs::tell_news() {
  for (RecordFile* file : parts_->files())
    for (const std::string& line : file->take_news()) tell(line);
}

void StepOutputs::tell(const std::string& text) {
  if (parts_->display)
    parts_->display->tell(text);
  else
    parts_->lines.write(text + "\n");
}

}  // namespace tessera::metrics
