#include <ostream>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/files/replace_file.hpp"
#include "tessera/base/process/num_threads.hpp"
#include "tessera/cli/tokenizer/tokenizer_commands.hpp"
#include "tessera/metrics/display/progress_bar.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/tokenizer/learn/learn.hpp"

namespace tessera::cli {

int tokenizer_learn(const TokenizerLearnOptions& options, std::ostream& out) {
  if (options.least_count < 1) throw UserError("--least-count: wants 1 or more");
  make_folder_of(options.out);
  const double begun = now_seconds();
  std::unique_ptr<metrics::ProgressBar> bar;
  std::string shown;
  tokenizer::LearnOptions learn{
      .paths = options.texts,
      .vocabulary_size = options.vocabulary,
      .split = options.split,
      .least_count = static_cast<std::uint64_t>(options.least_count),
      .progress = [&](const std::string& what, std::uint64_t done, std::uint64_t all) {
        if (what != shown) {
          bar.reset();
          bar = std::make_unique<metrics::ProgressBar>(what);
          shown = what;
        }
        bar->update(done, all);
      }};
  learn.threads = num_threads(options.threads);
  if (!options.special.empty()) learn.special = options.special;
  const tokenizer::Learned made = tokenizer::learn_tokenizer(learn);
  bar.reset();
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(made.json))};
  replace_file(options.out, parts);
  const double seconds = now_seconds() - begun;
  if (options.json) {
    out << metrics::json_object(metrics::Record{{"file", options.out},
                                                {"vocabulary_size", made.vocabulary_size},
                                                {"merges", static_cast<std::int64_t>(made.num_merges)},
                                                {"words", static_cast<std::int64_t>(made.num_words)},
                                                {"seconds", seconds}})
        << "\n";
    return 0;
  }
  out << cat(options.out, ": ", made.vocabulary_size, " tokens, ", made.num_merges, " merges, learned from ",
             made.num_words, " different words in ", duration_text(seconds), "\n");
  if (made.vocabulary_size < options.vocabulary)
    out << cat("The texts have no more pairs that stand there ", options.least_count,
               " times; more text would give more tokens.\n");
  return 0;
}

}  // namespace tessera::cli
