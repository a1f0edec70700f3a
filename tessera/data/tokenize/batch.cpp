#include "tessera/data/tokenize/batch.hpp"

#include "tessera/base/error.hpp"

namespace tessera::data {
namespace {

// Appends the record's tokens and mask; whether there were any.
bool add_record(const std::vector<Segment>& segments, const TokenizeOptions& options,
                tokenizer::Encoder& encoder, Batch& batch) {
  const std::size_t before = batch.tokens.size();
  for (const Segment& segment : segments) {
    encoder.encode(segment.text, batch.tokens);
    batch.mask.resize(batch.tokens.size(), segment.counts ? 1 : 0);
    batch.summary.text_bytes += segment.text.size();
  }
  if (batch.tokens.size() == before) return false;
  if (options.end_of_document) {
    batch.tokens.push_back(*options.end_of_document);
    batch.mask.push_back(1);
  }
  batch.lengths.push_back(batch.tokens.size() - before);
  return true;
}

}  // namespace

void encode(Batch& batch, const TokenizeOptions& options, tokenizer::Encoder& encoder) {
  TokenizeSummary& sum = batch.summary;
  for (const RawRecord& record : batch.records) {
    ++sum.records;
    std::vector<Segment> segments;
    try {
      segments = parse_record(record.bytes, options.record);
    } catch (const UserError& error) {
      if (!options.skip_broken)
        throw UserError(cat("'", options.inputs[batch.input], "', line ", record.line, ": ", error.what(),
                            ". Mend the record, or leave such ones out with --skip-broken."));
      ++sum.broken;
      continue;
    }
    if (add_record(segments, options, encoder, batch)) {
      sum.lengths.add(batch.lengths.back());
    } else {
      ++sum.empty;
    }
  }
  sum.documents = batch.lengths.size();
  sum.tokens = batch.tokens.size();
  for (const tokenizer::Token counts : batch.mask) sum.counted_tokens += static_cast<std::uint64_t>(counts);
  batch.records.clear();
}

}  // namespace tessera::data
