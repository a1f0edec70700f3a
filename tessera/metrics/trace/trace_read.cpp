#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "tessera/base/error.hpp"
#include "tessera/base/files/mapped_file.hpp"
#include "tessera/metrics/trace/trace.hpp"

namespace tessera::metrics {

namespace {

using Json = nlohmann::ordered_json;  // keeps the args in their order

template <typename T>
bool is_a(const Json& value) {
  if constexpr (std::is_same_v<T, std::int64_t>) return value.is_number_integer();
  if constexpr (std::is_same_v<T, double>) return value.is_number();
  if constexpr (std::is_same_v<T, std::string>) return value.is_string();
}

struct Reader {
  const std::string& path;

  template <typename... Parts>
  void expect(bool condition, const Parts&... parts) const {
    if (!condition) throw UserError(cat("trace '", path, "': ", parts...));
  }

  template <typename T>
  T member(const Json& object, const char* key) const {
    const auto found = object.find(key);
    expect(found != object.end() && is_a<T>(*found), "no usable '", key, "' in ", object.dump());
    return found->template get<T>();
  }

  const Json& args(const Json& event) const {
    const auto found = event.find("args");
    expect(found != event.end() && found->is_object(), "no args in ", event.dump());
    return *found;
  }

  std::vector<Field> fields(const Json& args) const {
    std::vector<Field> out;
    for (const auto& [name, value] : args.items()) {
      if (value.is_number_integer()) {
        out.push_back({name, value.get<std::int64_t>()});
      } else if (value.is_number() || value.is_null()) {
        out.push_back(
            {name, value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>()});
      } else {
        out.push_back({name, member<std::string>(args, name.c_str())});
      }
    }
    return out;
  }

  std::vector<Event> events(const Json& trace) const {
    const auto lines = trace.find("traceEvents");
    expect(lines != trace.end() && lines->is_array(), "no list traceEvents");
    std::map<std::pair<std::int64_t, std::int64_t>, std::string> rows;
    std::vector<Event> out;
    for (const Json& line : *lines) {
      const auto phase = member<std::string>(line, "ph"), name = member<std::string>(line, "name");
      const auto process = member<std::int64_t>(line, "pid");
      const std::pair row(process, member<std::int64_t>(line, "tid"));
      if (phase == "M" && name == "thread_name") rows[row] = member<std::string>(args(line), "name");
      if (phase != "X") continue;
      expect(rows.contains(row), "no thread_name before event '", name, "'");
      const auto microseconds = member<double>(line, "dur");
      expect(microseconds >= 0, "event '", name, "' ends before it starts: 'dur' is ", microseconds);
      out.push_back({.name = name,
                     .process = process,
                     .row = rows.at(row),
                     .start_seconds = member<double>(line, "ts") / 1e6,
                     .duration_seconds = microseconds / 1e6,
                     .args = fields(args(line))});
    }
    return out;
  }
};

std::string program_of(const Json& trace) {
  const auto other = trace.find("otherData");
  if (other == trace.end() || !other->is_object()) return "";
  const auto program = other->find("program");
  return program != other->end() && program->is_string() ? program->get<std::string>() : "";
}

}  // namespace

Trace read_trace(const std::string& path) { return parse_trace(MappedFile(path).text(), path); }

Trace parse_trace(std::string_view text, const std::string& from) {
  const Json trace = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const Reader reader{from};
  reader.expect(!trace.is_discarded(), "is not JSON");
  return {reader.events(trace), program_of(trace)};
}

}  // namespace tessera::metrics
