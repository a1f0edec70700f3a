#include <ostream>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/files/replace_file.hpp"
#include "tessera/base/process/num_threads.hpp"
#include "tessera/cli/data/data_commands.hpp"
#include "tessera/data/tokenize/tokenize.hpp"
#include "tessera/launch/watch/signals.hpp"
#include "tessera/metrics/display/progress_bar.hpp"
#include "tessera/metrics/field.hpp"

namespace tessera::cli {
namespace {

// To the note that the same command goes on from, after a signal.
constexpr double kGraceSeconds = 60;

bool is_json(const DataOptions& options) {
  if (options.format != "auto") return options.format == "json";
  std::size_t count = 0;
  for (std::string name : options.names) {
    for (const char* packed : {".gz", ".zst"})
      if (name.ends_with(packed)) name.resize(name.size() - std::string_view(packed).size());
    count += name.ends_with(".jsonl") || name.ends_with(".json") || name.ends_with(".ndjson");
  }
  if (count != 0 && count != options.names.size())
    throw UserError("some of the files are JSON by their names and some are not; say which with --format");
  return count > 0;
}

data::RecordOptions record_options(const DataOptions& options) {
  const bool json = is_json(options);
  data::RecordOptions out{.field = json ? options.field : ""};
  if (options.records == "text") return out;
  if (!json) throw UserError(cat("--records ", options.records, " reads JSON lines (.jsonl); see --format"));
  out.kind = options.records == "messages" ? data::RecordKind::messages : data::RecordKind::completion;
  if (out.kind == data::RecordKind::messages) {
    if (options.chat_template.empty())
      throw UserError(
          "--records messages needs --chat-template: a model's folder, a file of Jinja, chatml, llama3 or "
          "mistral");
    out.chat = std::make_shared<data::ChatTemplate>(data::open_chat_template(options.chat_template));
  }
  return out;
}

data::TokenizeOptions tokenize_options(const DataOptions& options, const tokenizer::Tokenizer& tokenizer) {
  data::TokenizeOptions out{.inputs = options.names,
                            .output = options.output,
                            .tokenizer = options.tokenizer,
                            .record = record_options(options),
                            .skip_broken = options.skip_broken};
  if (out.record.kind == data::RecordKind::text && out.record.field.empty())
    out.record_end = options.documents_end == "line"   ? data::RecordEnd::line
                     : options.documents_end == "file" ? data::RecordEnd::file
                                                       : data::RecordEnd::blank_line;
  if (!options.end_of_document.empty()) {
    out.end_of_document = tokenizer.token_of(options.end_of_document);
    if (!out.end_of_document)
      throw UserError(cat("--append ", options.end_of_document, ": the vocabulary has no such token"));
  }
  out.threads = num_threads(options.threads);
  return out;
}

metrics::Record to_record(const data::TokenizeSummary& sum, const std::string& output, double seconds) {
  const auto whole = [](std::uint64_t number) { return static_cast<std::int64_t>(number); };
  std::vector<std::int64_t> lengths(sum.lengths.counts().begin(), sum.lengths.counts().end());
  return {{"output", output},
          {"records", whole(sum.records)},
          {"documents", whole(sum.documents)},
          {"tokens", whole(sum.tokens)},
          {"counted_tokens", whole(sum.counted_tokens)},
          {"text_bytes", whole(sum.text_bytes)},
          {"empty", whole(sum.empty)},
          {"broken", whole(sum.broken)},
          {"lengths", lengths},
          {"seconds", seconds}};
}

std::string to_text(const data::TokenizeSummary& sum, const std::string& output, double seconds) {
  const auto number = [](std::uint64_t count) { return count_text(static_cast<double>(count)); };
  const double tokens = static_cast<double>(sum.tokens), bytes = static_cast<double>(sum.text_bytes);
  std::string out = cat(output, ".bin, ", output, ".idx\n", number(sum.documents), " documents, ",
                        number(sum.tokens), " tokens of ", bytes_text(bytes), " of text (",
                        fixed(sum.tokens == 0 ? 0 : bytes / tokens, 2), " bytes a token)\n");
  if (sum.counted_tokens != sum.tokens)
    out += cat(number(sum.counted_tokens), " of them count in the loss\n");
  if (sum.empty > 0) out += cat(sum.empty, " records without text were left out\n");
  if (sum.broken > 0) out += cat(sum.broken, " broken records were left out\n");
  out += cat(duration_text(seconds), ", ", bytes_text(bytes / seconds), "/s\n\n", sum.lengths.to_text());
  return out;
}

}  // namespace

int data_tokenize_command(const DataOptions& options, std::ostream& out) {
  const auto tokenizer = tokenizer::open_tokenizer(options.tokenizer);
  const data::TokenizeOptions given = tokenize_options(options, *tokenizer);
  make_folder_of(given.output);
  StopRequest stop;
  const launch::StopOnSignals listening(stop, {.grace_seconds = kGraceSeconds, .tells = false});
  const double begun = now_seconds();
  std::optional<data::TokenizeSummary> sum;
  {
    metrics::ProgressBar bar("tokenizing");
    sum = data::tokenize(given, *tokenizer, bar.progress(), [&] { return stop.signal() != 0; });
  }
  if (!sum) {
    out << "stopped; the same command goes on from here\n";
    return stop.exit_code();
  }
  const double seconds = now_seconds() - begun;
  out << (options.json ? metrics::json_object(to_record(*sum, given.output, seconds)) + "\n"
                       : to_text(*sum, given.output, seconds));
  return 0;
}

}  // namespace tessera::cli
