// Records that are read, encoded and written together.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "tessera/data/text/record_reader.hpp"
#include "tessera/data/tokenize/tokenize.hpp"

namespace tessera::data {

struct Batch {
  std::size_t input = 0;  // which file its records are from
  std::vector<RawRecord> records;
  RecordReader::Place end;  // where the next batch begins
  std::uint64_t taken = 0;  // packed bytes of all inputs up to there
  bool is_last_of_input = false;

  std::vector<tokenizer::Token> tokens, mask;  // of all documents; the mask has 1 where a token counts
  std::vector<std::uint64_t> lengths;          // of each document
  TokenizeSummary summary;                     // of this batch alone
  std::exception_ptr error;                    // instead of what follows it
};

// Fills in what comes of the records. Throws UserError naming file and line.
void encode(Batch& batch, const TokenizeOptions& options, tokenizer::Encoder& encoder);

}  // namespace tessera::data
