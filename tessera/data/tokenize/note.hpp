// A note of how far tokenizing has come, in a file beside the pair that is written.
#pragma once

#include <optional>
#include <string>

#include "tessera/data/tokenize/tokenize.hpp"

namespace tessera::data {

struct TokenizeNote {
  std::string options;    // what must be the same to go on
  std::size_t input = 0;  // which file is read
  RecordReader::Place place;
  PairMark mark;
  TokenizeSummary summary;
  bool is_complete = false;  // all is written but the index
  bool operator==(const TokenizeNote&) const = default;
};

std::string note_path(const std::string& output);
std::string to_text(const TokenizeNote& note);
// Throws UserError when it is damaged.
TokenizeNote parse_note(const std::string& text, const std::string& path);

// What the pair depends on, as a text: inputs and their sizes, tokenizer, and how records are read.
std::string options_text(const TokenizeOptions& options, std::int64_t vocabulary_size);

}  // namespace tessera::data
