#include "tessera/train/source/source.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "tessera/base/error.hpp"
#include "tessera/base/files/file_sample.hpp"
#include "tessera/base/number.hpp"
#include "tessera/base/random.hpp"
#include "tessera/checkpoint/format/chunk_hash.hpp"
#include "tessera/data/byte_corpus.hpp"
#include "tessera/data/samples/data_set.hpp"
#include "tessera/tokenizer/tokenizer.hpp"
#include "tessera/train/source/tokens.hpp"

namespace tessera::train {

namespace {

using Bytes = std::shared_ptr<const data::ByteCorpus>;

// `key` is the one that names the file.
Bytes open_bytes(const spec::Data& data, const spec::Model& model, const char* key, const std::string& path) {
  if (path.empty())
    throw UserError(
        "data.path is empty: name a text file to train on, e.g. data.path=corpus/kjv.txt, or tokenized "
        "documents in data.sources");
  if (model.vocab < 256)
    throw UserError(
        cat("model.vocab = ", model.vocab, " is too small for the bytes of ", path, "; bytes need 256"));
  expect_no_tokenizer(data, model);
  if (std::error_code error; !std::filesystem::exists(path, error))
    throw UserError(cat(key, " = ", path, ": there is no such file",
                        std::filesystem::path(path).is_absolute()
                            ? ""
                            : cat(" beside the run file, nor in the working folder ",
                                  std::filesystem::current_path(error).string()),
                        ". Name a text file to train on."));
  return std::make_shared<data::ByteCorpus>(path, model.sequence, data.seed);
}

Source byte_source(Bytes corpus) {
  return [corpus = std::move(corpus)](auto samples, auto tokens, auto targets, auto) {
    corpus->fill(samples, tokens, targets);
  };
}

data::DataSetOptions options_of(const spec::Data& data, const spec::Model& model, data::Split split) {
  data::DataSetOptions out{
      .sources = spec::split_list(data.sources),
      .packing = data.packing == spec::Packing::cut ? data::PackingKind::cut : data::PackingKind::best_fit,
      .sequence = model.sequence,
      .seed = data.seed,
      .skip = static_cast<std::uint64_t>(data.skip),
      .validation = data.validation,
      .split = split};
  for (const std::string& weight : spec::split_list(data.weights))
    out.weights.push_back(required_number("data.weights =", weight, {.least = 0, .most = 1e12}));
  if (split == data::Split::validation) out.skip = 0;
  return out;
}

Source document_source(const spec::Model& model, std::shared_ptr<const data::DataSet> set) {
  return
      [set = std::move(set), vocab = model.vocab](auto samples, auto tokens, auto targets, auto documents) {
        set->fill(samples, {tokens, targets, documents});
        const auto most = std::ranges::max_element(tokens);
        if (most != tokens.end() && *most >= vocab)
          throw UserError(cat("the data has token ", *most, ", but model.vocab = ", vocab,
                              ": set it to the size of the tokenizer's vocabulary"));
      };
}

std::shared_ptr<const data::DataSet> data_set(const spec::Data& data, const spec::Model& model,
                                              data::Split split) {
  return std::make_shared<data::DataSet>(options_of(data, model, split));
}

// Of the targets that count. Those that follow each other are decoded together: a token alone may be half of
// a character.
double bytes_per_token(const HeldOut& held, std::int64_t positions, const tokenizer::Tokenizer& tokenizer) {
  const auto sequence = static_cast<std::size_t>(positions);
  std::vector<std::int64_t> tokens(sequence), targets(sequence), documents(sequence);
  std::vector<tokenizer::Token> following;
  double num_bytes = 0, num_tokens = 0;
  for (std::uint64_t sample = 0; sample < held.samples; ++sample) {
    held.source(std::span(&sample, 1), tokens, targets, documents);
    const auto counts = [](std::int64_t target) { return target >= 0; };
    for (auto begin = targets.begin();
         (begin = std::find_if(begin, targets.end(), counts)) != targets.end();) {
      const auto end = std::find_if_not(begin, targets.end(), counts);
      following.assign(begin, end);
      num_bytes += static_cast<double>(tokenizer.decode(following, true).size());
      num_tokens += static_cast<double>(following.size());
      begin = end;
    }
  }
  return num_tokens > 0 ? num_bytes / num_tokens : 1;
}

std::uint64_t num_asked(std::int64_t samples, std::uint64_t there, const std::string& where,
                        std::int64_t sequence) {
  const auto asked = static_cast<std::uint64_t>(samples);
  if (asked > there)
    throw UserError(cat("evaluation.samples = ", asked, ", but ", where, " has only ", there, " samples of ",
                        sequence, " tokens"));
  return asked == 0 ? there : asked;
}

HeldOut documents_of(const spec::Data& data, const spec::Model& model, std::int64_t samples,
                     data::Split split, const std::string& where) {
  const auto set = data_set(data, model, split);
  std::uint64_t there = 0;
  for (std::size_t source = 0; source < set->num_sources(); ++source) there += set->num_samples(source);
  HeldOut out{.source = document_source(model, set),
              .samples = num_asked(samples, there, where, model.sequence),
              .bytes_per_token = std::nullopt};
  if (!data.tokenizer.empty())
    out.bytes_per_token = bytes_per_token(out, model.sequence, *tokenizer::open_tokenizer(data.tokenizer));
  return out;
}

HeldOut bytes_of(const spec::Data& data, const spec::Model& model, const spec::Evaluation& evaluation) {
  const Bytes corpus = open_bytes(data, model, "evaluation.path", evaluation.path);
  return {.source = byte_source(corpus),
          .samples = num_asked(evaluation.samples, corpus->num_samples(), evaluation.path, model.sequence),
          .bytes_per_token = 1};
}

}  // namespace

Source corpus_source(const spec::Data& data, const spec::Model& model) {
  if (data.sources.empty()) return byte_source(open_bytes(data, model, "data.path", data.path));
  return document_source(model, data_set(data, model, data::Split::training));
}

void expect_data(const spec::Data& data, const spec::Model& model, const spec::Evaluation& evaluation) {
  if (data.sources.empty()) {
    open_bytes(data, model, "data.path", data.path);
    if (evaluation.every > 0) held_out(data, model, evaluation);
    return;
  }
  spec::Data quick = data;
  quick.packing = spec::Packing::cut;
  data_set(quick, model, data::Split::training);
  if (evaluation.every > 0) data_set(quick, model, data::Split::validation);
  if (!data.tokenizer.empty()) tokenizer::open_tokenizer(data.tokenizer);
}

checkpoint::DataIdentity identity_of(const std::string& path) {
  const RandomAccessFile file(path);
  return {file.bytes(), checkpoint::hash_of(file_sample(file))};
}

checkpoint::DataIdentity identity_of(const spec::Data& data) {
  if (data.sources.empty()) return identity_of(data.path);
  const auto found = data::fingerprint_of(spec::split_list(data.sources));
  return checkpoint::DataIdentity{found.bytes, found.hash};
}

HeldOut held_out(const spec::Data& data, const spec::Model& model, const spec::Evaluation& evaluation) {
  if (!data.sources.empty())
    return documents_of(data, model, evaluation.samples, data::Split::validation,
                        cat("data.validation = ", data.validation));
  if (evaluation.path.empty())
    throw UserError(cat("evaluation.every = ", evaluation.every,
                        ", but evaluation.path is empty: name a text file that is not trained on, or set "
                        "evaluation.every=0"));
  return bytes_of(data, model, evaluation);
}

HeldOut everything(const spec::Data& data, const spec::Model& model, const spec::Evaluation& evaluation) {
  if (data.sources.empty()) return bytes_of(data, model, evaluation);
  TESSERA_CHECK(data.validation == 0 && data.skip == 0, "a part of ", data.sources);
  return documents_of(data, model, evaluation.samples, data::Split::training, data.sources);
}

Source random_source(const spec::Model& model) {
  return [model](std::span<const std::uint64_t> samples, std::span<std::int64_t> tokens,
                 std::span<std::int64_t> targets, std::span<std::int64_t>) {
    const auto sequence = static_cast<std::uint64_t>(model.sequence);
    const auto token = [&](std::uint64_t sample, std::uint64_t position) {
      return static_cast<std::int64_t>(random_bits(17, sample, position) %
                                       static_cast<std::uint64_t>(model.vocab));
    };
    for (std::size_t row = 0; row < samples.size(); ++row)
      for (std::uint64_t p = 0; p < sequence; ++p) {
        tokens[row * sequence + p] = token(samples[row], p);
        targets[row * sequence + p] = token(samples[row], p + 1);
      }
  };
}

}  // namespace tessera::train
