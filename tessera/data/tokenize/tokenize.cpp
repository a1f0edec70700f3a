#include "tessera/data/tokenize/tokenize.hpp"

#include <algorithm>
#include <filesystem>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/base/files/replace_file.hpp"
#include "tessera/data/indexed/indexed_file.hpp"
#include "tessera/data/tokenize/encoding_threads.hpp"
#include "tessera/data/tokenize/note.hpp"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

// Gives the records of all inputs in batches.
class BatchReader {
 public:
  BatchReader(const TokenizeOptions& options, const TokenizeNote& from)
      : options_(options), input_(from.input) {
    for (std::size_t i = 0; i < input_; ++i) taken_before_ += fs::file_size(options_.inputs[i]);
    if (input_ < options_.inputs.size()) open(from.place);
  }

  std::optional<Batch> next() {
    constexpr std::size_t kBytes = 1 << 20, kRecords = 4096;
    if (!reader_) return std::nullopt;
    Batch batch{.input = input_};
    std::size_t bytes = 0;
    while (bytes < kBytes && batch.records.size() < kRecords) {
      auto record = reader_->next();
      if (!record) {
        batch.is_last_of_input = true;
        break;
      }
      bytes += record->bytes.size();
      batch.records.push_back(std::move(*record));
    }
    batch.end = reader_->place();
    batch.taken = taken_before_ + reader_->taken();
    if (batch.is_last_of_input) {
      taken_before_ += reader_->taken();
      reader_.reset();
      if (++input_ < options_.inputs.size()) open({});
    }
    return batch;
  }

 private:
  void open(const RecordReader::Place& place) {
    const std::string& path = options_.inputs[input_];
    reader_.emplace(open_stream(path), path, options_.record_end);
    reader_->move_to(place);
  }

  const TokenizeOptions& options_;
  std::size_t input_;
  std::uint64_t taken_before_ = 0;
  std::optional<RecordReader> reader_;
};

bool has_mask(const TokenizeOptions& options) { return options.record.kind != RecordKind::text; }
std::string mask_name(const TokenizeOptions& options) { return options.output + ".mask"; }

// A note of earlier work, or an empty one. Throws UserError when the work can't go on.
TokenizeNote begun(const TokenizeOptions& options, const std::string& wanted) {
  const std::string path = note_path(options.output);
  if (!fs::exists(path)) {
    for (const std::string& name : {options.output, mask_name(options)})
      if (fs::exists(name + ".idx") || fs::exists(name + ".bin"))
        throw UserError(
            cat("'", name, ".bin' or '", name, ".idx' is there already. Delete it, or write elsewhere."));
    remove_parts(options.output);
    remove_parts(mask_name(options));
    return {.options = wanted};
  }
  TokenizeNote note = parse_note(file_text(path), path);
  if (note.options != wanted)
    throw UserError(cat("what was begun as '", options.output, "' was begun with\n  ", note.options,
                        "\nand is now\n  ", wanted, "\nGive the same options, or delete '", path,
                        "' to begin anew."));
  return note;
}

void add_to(TokenizeSummary& sum, const TokenizeSummary& more) {
  sum.records += more.records;
  sum.documents += more.documents;
  sum.tokens += more.tokens;
  sum.counted_tokens += more.counted_tokens;
  sum.text_bytes += more.text_bytes;
  sum.empty += more.empty;
  sum.broken += more.broken;
  sum.lengths.add(more.lengths);
}

// The pair, and the pair of its mask.
class Output {
 public:
  Output(const TokenizeOptions& options, TokenType type, TokenizeNote& note)
      : path_(note_path(options.output)), note_(note), tokens_(options.output, type, note.mark) {
    if (has_mask(options)) mask_.emplace(mask_name(options), TokenType::u8, note.mark);
  }

  void add(const Batch& batch) {
    std::size_t at = 0;
    for (const std::uint64_t length : batch.lengths) {
      tokens_.add(std::span(batch.tokens).subspan(at, length));
      if (mask_) mask_->add(std::span(batch.mask).subspan(at, length));
      at += length;
    }
    add_to(note_.summary, batch.summary);
    note_.input = batch.input + (batch.is_last_of_input ? 1 : 0);
    note_.place = batch.is_last_of_input ? RecordReader::Place() : batch.end;
  }

  // First what the note tells of, then the note.
  void write_note() {
    note_.mark = tokens_.sync();
    if (mask_) mask_->sync();
    const std::string text = to_text(note_);
    const auto bytes = std::as_bytes(std::span(text));
    replace_file(path_, std::span(&bytes, 1));
  }

 private:
  std::string path_;
  TokenizeNote& note_;
  IndexedWriter tokens_;
  std::optional<IndexedWriter> mask_;
};

}  // namespace

std::optional<TokenizeSummary> tokenize(const TokenizeOptions& options, const tokenizer::Tokenizer& tokenizer,
                                        const TokenizeProgress& progress,
                                        const std::function<bool()>& is_stopped) {
  TESSERA_CHECK(options.threads > 0, options.threads, " threads");
  std::uint64_t all_bytes = 0;
  for (const std::string& input : options.inputs) {
    open_stream(input);  // what can't be read at all is said before anything is written
    all_bytes += fs::file_size(input);
  }
  const TokenType type = type_for_vocabulary(tokenizer.vocabulary_size());
  TokenizeNote note = begun(options, options_text(options, tokenizer.vocabulary_size()));
  if (!note.is_complete) {
    Output output(options, type, note);
    BatchReader reader(options, note);
    EncodingThreads threads(options, tokenizer, [&reader] { return reader.next(); });
    double noted = now_seconds();
    while (const auto batch = threads.take()) {
      output.add(*batch);
      progress(batch->taken, all_bytes);
      if (is_stopped()) {
        output.write_note();
        return std::nullopt;
      }
      if (now_seconds() - noted < options.note_seconds) continue;
      output.write_note();
      noted = now_seconds();
    }
    note.is_complete = true;
    output.write_note();
  }
  if (has_mask(options) && !is_pair(mask_name(options)))
    IndexedWriter(mask_name(options), TokenType::u8, note.mark).finish();
  if (!is_pair(options.output)) IndexedWriter(options.output, type, note.mark).finish();
  fs::remove(note_path(options.output));
  remove_parts(options.output);
  return note.summary;
}

}  // namespace tessera::data
