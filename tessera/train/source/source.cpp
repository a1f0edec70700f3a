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
Bytes open_bytes(const spec::Run& run, const char* key, const std::string& path) {
  if (path.empty())
    throw UserError(
        "data.path is empty: name a text file to train on, e.g. data.path=corpus/kjv.txt, or tokenized "
        "documents in data.sources");
  if (run.model.vocab < 256)
    throw UserError(
        cat("model.vocab = ", run.model.vocab, " is too small for the bytes of ", path, "; bytes need 256"));
  expect_no_tokenizer(run);
  if (std::error_code error; !std::filesystem::exists(path, error))
    throw UserError(cat(key, " = ", path, ": there is no such file",
                        std::filesystem::path(path).is_absolute()
                            ? ""
                            : cat(" beside the run file, nor in the working folder ",
                                  std::filesystem::current_path(error).string()),
                        ". Name a text file to train on."));
  return std::make_shared<data::ByteCorpus>(path, run.model.sequence, run.data.seed);
}

Source byte_source(Bytes corpus) {
  return [corpus = std::move(corpus)](auto samples, auto tokens, auto targets, auto) {
    corpus->fill(samples, tokens, targets);
  };
}

data::DataSetOptions options_of(const spec::Run& run, data::Split split) {
  data::DataSetOptions out{.sources = spec::split_list(run.data.sources),
                           .packing = run.data.packing == spec::Packing::cut ? data::PackingKind::cut
                                                                             : data::PackingKind::best_fit,
                           .sequence = run.model.sequence,
                           .seed = run.data.seed,
                           .skip = static_cast<std::uint64_t>(run.data.skip),
                           .validation = run.data.validation,
                           .split = split};
  for (const std::string& weight : spec::split_list(run.data.weights))
    out.weights.push_back(required_number("data.weights =", weight, {.least = 0, .most = 1e12}));
  if (split == data::Split::validation) out.skip = 0;
  return out;
}

Source document_source(const spec::Run& run, std::shared_ptr<const data::DataSet> set) {
  return [set = std::move(set), vocab = run.model.vocab](auto samples, auto tokens, auto targets,
                                                         auto documents) {
    set->fill(samples, {tokens, targets, documents});
    const auto most = std::ranges::max_element(tokens);
    if (most != tokens.end() && *most >= vocab)
      throw UserError(cat("the data has token ", *most, ", but model.vocab = ", vocab,
                          ": set it to the size of the tokenizer's vocabulary"));
  };
}

std::shared_ptr<const data::DataSet> data_set(const spec::Run& run, data::Split split) {
  return std::make_shared<data::DataSet>(options_of(run, split));
}

// Of the targets that count. Those that follow each other are decoded together: a token alone may be half of
// a character.
double bytes_per_token(const HeldOut& held, const spec::Run& run, const tokenizer::Tokenizer& tokenizer) {
  const auto sequence = static_cast<std::size_t>(run.model.sequence);
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

std::uint64_t num_asked(const spec::Run& run, std::uint64_t there, const std::string& where) {
  const auto asked = static_cast<std::uint64_t>(run.evaluation.samples);
  if (asked > there)
    throw UserError(cat("evaluation.samples = ", asked, ", but ", where, " has only ", there, " samples of ",
                        run.model.sequence, " tokens"));
  return asked == 0 ? there : asked;
}

HeldOut documents_of(const spec::Run& run, data::Split split, const std::string& where) {
  const auto set = data_set(run, split);
  std::uint64_t there = 0;
  for (std::size_t source = 0; source < set->num_sources(); ++source) there += set->num_samples(source);
  HeldOut out{.source = document_source(run, set),
              .samples = num_asked(run, there, where),
              .bytes_per_token = std::nullopt};
  if (!run.data.tokenizer.empty())
    out.bytes_per_token = bytes_per_token(out, run, *tokenizer::open_tokenizer(run.data.tokenizer));
  return out;
}

HeldOut bytes_of(const spec::Run& run) {
  const Bytes corpus = open_bytes(run, "evaluation.path", run.evaluation.path);
  return {.source = byte_source(corpus),
          .samples = num_asked(run, corpus->num_samples(), run.evaluation.path),
          .bytes_per_token = 1};
}

}  // namespace

Source corpus_source(const spec::Run& run) {
  if (run.data.sources.empty()) return byte_source(open_bytes(run, "data.path", run.data.path));
  return document_source(run, data_set(run, data::Split::training));
}

void expect_data(const spec::Run& run) {
  if (run.data.sources.empty()) {
    open_bytes(run, "data.path", run.data.path);
    if (run.evaluation.every > 0) held_out(run);
    return;
  }
  spec::Run quick = run;
  quick.data.packing = spec::Packing::cut;
  data_set(quick, data::Split::training);
  if (run.evaluation.every > 0) data_set(quick, data::Split::validation);
  if (!run.data.tokenizer.empty()) tokenizer::open_tokenizer(run.data.tokenizer);
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

HeldOut held_out(const spec::Run& run) {
  if (!run.data.sources.empty())
    return documents_of(run, data::Split::validation, cat("data.validation = ", run.data.validation));
  if (run.evaluation.path.empty())
    throw UserError(cat("evaluation.every = ", run.evaluation.every,
                        ", but evaluation.path is empty: name a text file that is not trained on, or set "
                        "evaluation.every=0"));
  return bytes_of(run);
}

HeldOut everything(const spec::Run& run) {
  if (run.data.sources.empty()) return bytes_of(run);
  TESSERA_CHECK(run.data.validation == 0 && run.data.skip == 0, "a part of ", run.data.sources);
  return documents_of(run, data::Split::training, run.data.sources);
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
