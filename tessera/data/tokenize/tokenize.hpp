// Text files to a pair of .bin and .idx, on several threads, in memory that does not grow with the input.
// What was stopped goes on where it last noted its work, and the pair is the same byte for byte.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/data/indexed/indexed_writer.hpp"
#include "tessera/data/indexed/length_histogram.hpp"
#include "tessera/data/text/record_reader.hpp"
#include "tessera/data/tokenize/record.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera::data {

struct TokenizeOptions {
  std::vector<std::string> inputs;
  std::string output;     // name of the pair
  std::string tokenizer;  // as open_tokenizer() takes it
  RecordOptions record;
  RecordEnd record_end = RecordEnd::line;
  std::optional<tokenizer::Token> end_of_document;  // appended to each one
  bool skip_broken = false;                         // records that are no JSON or lack a field
  int threads = 1;                                  // that encode
  double note_seconds = 20;                         // between notes of the work
};

struct TokenizeSummary {
  std::uint64_t records = 0, documents = 0, tokens = 0, counted_tokens = 0;  // counted: in the loss
  std::uint64_t text_bytes = 0, empty = 0, broken = 0;  // records without text; skipped ones
  LengthHistogram lengths;
  bool operator==(const TokenizeSummary&) const = default;
};

// Packed bytes of the input that were taken, and all of them.
using TokenizeProgress = std::function<void(std::uint64_t done, std::uint64_t all)>;

// Writes output.bin and output.idx; where only parts of a document count, output.mask.bin and .idx besides.
// Returns early, with its work noted, when `is_stopped` says so; then there is no value. Throws UserError
// when an input can't be read or a record is broken (file and line), when the pair is there already, or when
// what was begun under this name was begun with other options.
std::optional<TokenizeSummary> tokenize(const TokenizeOptions& options, const tokenizer::Tokenizer& tokenizer,
                                        const TokenizeProgress& progress,
                                        const std::function<bool()>& is_stopped);

}  // namespace tessera::data
