#include "tessera/metrics/trace/trace.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tessera/base/text.hpp"
#include "tessera/metrics/out_file.hpp"
#include "tessera/metrics/trace/intervals.hpp"

namespace tessera::metrics {

namespace {

std::vector<Interval> intervals_of(std::span<const Event> events) {
  std::vector<Interval> out;
  for (const Event& event : events)
    out.emplace_back(event.start_seconds, event.start_seconds + event.duration_seconds);
  return out;
}

std::string metadata_line(const char* what, std::int64_t process, std::int64_t row, const Field& value) {
  return cat("{\"ph\": \"M\", \"name\": \"", what, "\", \"pid\": ", process, ", \"tid\": ", row,
             ", \"args\": ", json_object(std::span(&value, 1)), "}");
}

}  // namespace

std::string trace_text(std::span<const Event> events, const std::string& program) {
  // Rows count from 1: viewers take thread 0 for the idle thread.
  std::map<std::string, std::int64_t> rows;
  std::set<std::int64_t> processes;
  std::set<std::pair<std::int64_t, std::string>> named;
  std::vector<std::string> lines;
  for (const Event& event : events) {
    const auto next = static_cast<std::int64_t>(rows.size()) + 1;
    const std::int64_t row = rows.try_emplace(event.row, next).first->second;
    if (processes.insert(event.process).second)
      lines.push_back(metadata_line("process_name", event.process, 0, {"name", cat("rank ", event.process)}));
    if (named.emplace(event.process, event.row).second) {
      lines.push_back(metadata_line("thread_name", event.process, row, {"name", event.row}));
      lines.push_back(metadata_line("thread_sort_index", event.process, row, {"sort_index", row}));
    }
    lines.push_back(cat("{\"ph\": \"X\", \"name\": ", json_quoted(event.name), ", \"pid\": ", event.process,
                        ", \"tid\": ", row, ", \"ts\": ", event.start_seconds * 1e6, ", \"dur\": ",
                        event.duration_seconds * 1e6, ", \"args\": ", json_object(event.args), "}"));
  }
  return cat("{\"traceEvents\": [\n", join(lines, ",\n"),
             "\n],\n\"otherData\": {\"program\": ", json_quoted(program), "}}\n");
}

void write_trace(const std::string& path, std::span<const Event> events, const std::string& program) {
  OutFile(path, "--trace").write(trace_text(events, program));
}

std::vector<Event> events_of(std::span<const Event> events, std::int64_t process, const std::string& row) {
  std::vector<Event> out;
  std::ranges::copy_if(events, std::back_inserter(out),
                       [&](const Event& event) { return event.process == process && event.row == row; });
  return out;
}

double overlap_seconds(std::span<const Event> a, std::span<const Event> b) {
  return overlap_seconds(intervals_of(a), intervals_of(b));
}

}  // namespace tessera::metrics
