// Trace events, their file (the Chrome trace format, which Perfetto opens), and how much of one lane is
// hidden under another.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/metrics/field.hpp"

namespace tessera::metrics {

struct Event {
  std::string name;
  std::int64_t process = 0;  // rank
  std::string row;           // lane; one row of the picture
  double start_seconds = 0;
  double duration_seconds = 0;
  std::vector<Field> args = {};
  bool operator==(const Event&) const = default;
};

// The arg of this name, if there is one of this type.
template <typename T>
std::optional<T> argument(const Event& event, std::string_view name) {
  for (const Field& field : event.args)
    if (field.name == name && std::holds_alternative<T>(field.value)) return std::get<T>(field.value);
  return std::nullopt;
}

// One process per rank, one row per lane, lanes in the order they first appear. `program` says whose ops
// these are.
std::string trace_text(std::span<const Event> events, const std::string& program = "");
// The same as a file. Throws UserError when it can't be written.
void write_trace(const std::string& path, std::span<const Event> events, const std::string& program = "");

// What a file that write_trace made says: its events in their order, and what was given as `program`.
struct Trace {
  std::vector<Event> events;
  std::string program;
};

// Throw UserError naming the file, or where the text came from, and what is wrong.
Trace read_trace(const std::string& path);
Trace parse_trace(std::string_view text, const std::string& from);

// The events of one lane of one rank.
std::vector<Event> events_of(std::span<const Event> events, std::int64_t process, const std::string& row);

// Seconds of the union of A's intervals that lie under the union of B's.
double overlap_seconds(std::span<const Event> a, std::span<const Event> b);

}  // namespace tessera::metrics
