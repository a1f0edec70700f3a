#include <limits>
#include <ostream>

#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/cli/data/data_commands.hpp"
#include "tessera/data/indexed/merge.hpp"
#include "tessera/data/samples/packing.hpp"
#include "tessera/metrics/display/progress_bar.hpp"
#include "tessera/metrics/display/styled_line.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera::cli {
namespace {

using data::IndexedFile;

std::int64_t signed_of(std::uint64_t number) { return static_cast<std::int64_t>(number); }

// Samples of an epoch, cut and by best fit.
struct Packed {
  std::uint64_t cut = 0, best_fit = 0;
  double filled = 0;  // share, of best fit
};

Packed packed(const IndexedFile& pair, std::int64_t sequence) {
  const data::PackingInput input{
      .documents = &pair, .last = pair.num_documents(), .sequence = static_cast<std::uint64_t>(sequence)};
  Packed out{.best_fit = data::best_fit_packing(input)->num_samples()};
  if (pair.num_tokens() > input.sequence) out.cut = data::cut_packing(input)->num_samples();
  out.filled = static_cast<double>(pair.num_tokens()) / static_cast<double>(out.best_fit * input.sequence);
  return out;
}

void print_pair(const IndexedFile& pair, const DataOptions& options, std::ostream& out) {
  const auto lengths = data::length_histogram(pair);
  const bool has_mask = data::is_pair(pair.name() + ".mask");
  const bool is_packed = options.sequence > 0 && pair.num_tokens() > 0;
  const Packed samples = is_packed ? packed(pair, options.sequence) : Packed();
  if (options.json) {
    metrics::Record record = {
        {"name", pair.name()},
        {"type", data::to_text(pair.type())},
        {"documents", signed_of(pair.num_documents())},
        {"sequences", signed_of(pair.header().num_sequences)},
        {"tokens", signed_of(pair.num_tokens())},
        {"mask", has_mask},
        {"lengths", std::vector<std::int64_t>(lengths.counts().begin(), lengths.counts().end())}};
    if (is_packed) {
      record.push_back({"cut_samples", signed_of(samples.cut)});
      record.push_back({"best_fit_samples", signed_of(samples.best_fit)});
      record.push_back({"best_fit_filled", samples.filled});
    }
    out << metrics::json_object(record) << "\n";
    return;
  }
  out << cat(pair.name(), "\n", pair.num_documents(), " documents, ", pair.num_tokens(), " tokens as ",
             data::to_text(pair.type()), has_mask ? ", with a mask" : "", "\n");
  if (is_packed)
    out << cat("packed to ", options.sequence, " tokens: ", samples.cut, " samples cut, or ",
               samples.best_fit, " by best fit, ", fixed(100 * samples.filled, 1), " % filled\n");
  out << "\n" << lengths.to_text();
}

// What a terminal would take for commands is not printed.
std::string printable(const std::string& text) {
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    metrics::StyledLine line;
    line.add(text.substr(begin, end - begin));
    out += line.rendered(std::numeric_limits<int>::max(), false) + "\n";
    begin = end + 1;
  }
  return out;
}

}  // namespace

int data_inspect_command(const DataOptions& options, std::ostream& out) {
  for (const std::string& name : options.names) print_pair(IndexedFile(name), options, out);
  return 0;
}

int data_verify_command(const DataOptions& options, std::ostream& out) {
  bool is_whole = true;
  for (const std::string& name : options.names) {
    std::int64_t largest = -1;
    std::uint64_t tokens = 0;
    metrics::ProgressBar bar("verifying");
    const std::string problem = complaint_of([&] {
      const IndexedFile pair(name);
      tokens = pair.num_tokens();
      pair.check();
      data::for_documents(pair, bar.progress(), [&](std::span<const std::int32_t> document) {
        for (const std::int32_t token : document) largest = std::max<std::int64_t>(largest, token);
      });
      if (options.vocabulary > 0 && largest >= options.vocabulary)
        throw UserError(
            cat("'", name, "' holds token ", largest, ", and the vocabulary has ", options.vocabulary));
    });
    is_whole = is_whole && problem.empty();
    if (options.json) {
      out << metrics::json_object(metrics::Record{{"name", name},
                                                  {"whole", problem.empty()},
                                                  {"tokens", signed_of(tokens)},
                                                  {"largest_token", largest},
                                                  {"problem", problem}})
          << "\n";
    } else {
      out << (problem.empty() ? cat(name, ": whole; ", tokens, " tokens, the largest is ", largest, "\n")
                              : cat(name, ": DAMAGED\n  ", problem, "\n"));
    }
  }
  return is_whole ? 0 : kExitNo;
}

int data_merge_command(const DataOptions& options, std::ostream& out) {
  {
    metrics::ProgressBar bar("merging");
    data::merge_pairs(options.names, options.output, bar.progress());
  }
  print_pair(IndexedFile(options.output), options, out);
  return 0;
}

int data_sample_command(const DataOptions& options, std::ostream& out) {
  const auto tokenizer = tokenizer::open_tokenizer(options.tokenizer);
  const IndexedFile pair(options.names.front());
  if (pair.num_documents() == 0) throw UserError(cat("'", pair.name(), "' has no document"));
  for (std::uint64_t i = 0; i < std::min(options.count, pair.num_documents()); ++i) {
    const std::uint64_t document = permuted(i, pair.num_documents(), options.seed, 0);
    std::vector<std::int64_t> read(pair.length(document));
    pair.read(pair.begin(document), read);
    const std::vector<tokenizer::Token> tokens(read.begin(), read.end());
    for (const tokenizer::Token token : tokens)
      if (token < 0 || token >= tokenizer->vocabulary_size())
        throw UserError(cat("document ", document, " holds token ", token, ", which '", options.tokenizer,
                            "' has not. Was the pair made with another tokenizer?"));
    const std::string text = tokenizer->decode(tokens, false);
    if (options.json) {
      out << metrics::json_object(
                 metrics::Record{{"document", signed_of(document)}, {"tokens", read}, {"text", text}})
          << "\n";
    } else {
      out << cat("document ", document, ", ", tokens.size(), " tokens\n", printable(text), "\n");
    }
  }
  return 0;
}

}  // namespace tessera::cli
