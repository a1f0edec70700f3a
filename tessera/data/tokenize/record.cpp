#include "tessera/data/tokenize/record.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/json_depth.hpp"

namespace tessera::data {
namespace {

constexpr int kMostDepth = 64;

Json object_of(const std::string& bytes) {
  if (json_depth(bytes) > kMostDepth)
    throw UserError(cat("it is nested deeper than ", kMostDepth, " levels"));
  Json out;
  try {
    out = Json::parse(bytes);
  } catch (const Json::exception& error) {
    const std::string what = error.what();  // "[json.exception.parse_error.101] parse error at ..."
    throw UserError("it is no JSON: " + what.substr(std::min(what.find("] ") + 2, what.size())));
  }
  if (!out.is_object()) throw UserError(cat("it is a JSON ", out.type_name(), ", not an object"));
  return out;
}

std::string text_at(const Json& object, const std::string& field) {
  const auto found = object.find(field);
  if (found == object.end()) {
    std::vector<std::string> names;
    for (const auto& [key, value] : object.items()) names.push_back(key);
    throw UserError(
        cat("it has no field \"", field, "\"; it has ", names.empty() ? "none" : join(names, ", ")));
  }
  if (!found->is_string())
    throw UserError(cat("its field \"", field, "\" is a ", found->type_name(), ", not text"));
  return found->get<std::string>();
}

}  // namespace

std::vector<Segment> parse_record(const std::string& bytes, const RecordOptions& options) {
  if (options.kind == RecordKind::text && options.field.empty()) return {{bytes, true}};
  const Json object = object_of(bytes);
  switch (options.kind) {
    case RecordKind::text:
      return {{text_at(object, options.field), true}};
    case RecordKind::completion:
      return {{text_at(object, "prompt"), false}, {text_at(object, "completion"), true}};
    case RecordKind::messages:
      break;
  }
  TESSERA_CHECK(options.chat != nullptr, "messages without a template");
  const auto found = object.find("messages");
  if (found == object.end()) throw UserError("it has no field \"messages\"");
  return options.chat->segments(*found);
}

}  // namespace tessera::data
