#include "tessera/data/tokenize/note.hpp"

#include <filesystem>

#include "tessera/base/error.hpp"
#include "tessera/base/json_depth.hpp"

namespace tessera::data {

std::string note_path(const std::string& output) { return output + ".tokenizing.json"; }

std::string to_text(const TokenizeNote& note) {
  const TokenizeSummary& sum = note.summary;
  return Json{{"version", 1},
              {"options", note.options},
              {"input", note.input},
              {"offset", note.place.offset},
              {"line", note.place.line},
              {"complete", note.is_complete},
              {"records", sum.records},
              {"documents", note.mark.documents},
              {"tokens", note.mark.tokens},
              {"counted_tokens", sum.counted_tokens},
              {"text_bytes", sum.text_bytes},
              {"empty", sum.empty},
              {"broken", sum.broken},
              {"lengths", sum.lengths.counts()}}
             .dump(1) +
         "\n";
}

TokenizeNote parse_note(const std::string& text, const std::string& path) {
  try {
    const Json json = json_depth(text) > 4 ? Json() : Json::parse(text);
    if (json.at("version") != 1) throw UserError(cat("'", path, "' was written by another version"));
    const auto number = [&](const char* name) { return json.at(name).get<std::uint64_t>(); };
    TokenizeNote out{.options = json.at("options"),
                     .input = number("input"),
                     .place = {number("offset"), number("line")},
                     .mark = {number("documents"), number("tokens")},
                     .is_complete = json.at("complete")};
    out.summary = {.records = number("records"),
                   .documents = out.mark.documents,
                   .tokens = out.mark.tokens,
                   .counted_tokens = number("counted_tokens"),
                   .text_bytes = number("text_bytes"),
                   .empty = number("empty"),
                   .broken = number("broken"),
                   .lengths = LengthHistogram(json.at("lengths").get<LengthHistogram::Counts>())};
    return out;
  } catch (const Json::exception&) {
    throw UserError(cat("'", path, "' is damaged. Delete it and the .part files beside it to begin anew."));
  }
}

std::string options_text(const TokenizeOptions& options, std::int64_t vocabulary_size) {
  std::string out = cat("tokenizer ", options.tokenizer, " of ", vocabulary_size, "; ");
  const RecordOptions& record = options.record;
  if (record.kind == RecordKind::text)
    out += record.field.empty() ? "plain text" : cat("field ", record.field);
  if (record.kind == RecordKind::completion) out += "completions";
  if (record.kind == RecordKind::messages)
    out += cat("messages as ", record.chat->name(), " ", record.chat->variables().dump());
  out += cat("; records end at ", options.record_end == RecordEnd::line   ? "lines"
                                  : options.record_end == RecordEnd::file ? "the file's end"
                                                                          : "blank lines");
  if (options.end_of_document) out += cat("; ends with ", *options.end_of_document);
  if (options.skip_broken) out += "; skips broken records";
  for (const std::string& input : options.inputs) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(input, error);
    out += cat("; ", input, " of ", error ? 0 : bytes, " bytes");
  }
  return out;
}

}  // namespace tessera::data
