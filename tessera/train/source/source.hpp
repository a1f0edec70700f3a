// Where samples come from: a text file, tokenized documents, or nowhere.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "tessera/checkpoint/format/manifest.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::train {

// Fills rows [samples, sequence] of tokens and targets for the global sample indices; targets below 0 don't
// count. Where a row holds several documents, `documents` says which one of them a token belongs to; it comes
// full of zeros.
using Source = std::function<void(std::span<const std::uint64_t> samples, std::span<std::int64_t> tokens,
                                  std::span<std::int64_t> targets, std::span<std::int64_t> documents)>;

// The samples to train on: the bytes of data.path, or the documents of data.sources, in the order of
// data.seed. Throws UserError when there is nothing that can be read.
Source corpus_source(const spec::Data& data, const spec::Model& model);
// Throws UserError when the training or evaluation data or the tokenizer can't be opened: before ranks start,
// so without what takes long of many documents.
void expect_data(const spec::Data& data, const spec::Model& model, const spec::Evaluation& evaluation);
// What is to be the same when the run goes on: of a file, and of all that the run reads.
checkpoint::DataIdentity identity_of(const std::string& path);
checkpoint::DataIdentity identity_of(const spec::Data& data);

// Tokens as a function of (sample, position), for runs that need no data.
Source random_source(const spec::Model& model);

// The samples to evaluate on: the first ones of the source.
struct HeldOut {
  Source source;
  std::uint64_t samples = 0;
  std::optional<double> bytes_per_token;  // of the text that its tokens stand for, if that is known
};
// Throws UserError when nothing is held out, or less than was asked for.
HeldOut held_out(const spec::Data& data, const spec::Model& model, const spec::Evaluation& evaluation);
// All of data.sources, or of evaluation.path, to evaluate a model on that is not trained. Throws UserError.
HeldOut everything(const spec::Data& data, const spec::Model& model, const spec::Evaluation& evaluation);

}  // namespace tessera::train
