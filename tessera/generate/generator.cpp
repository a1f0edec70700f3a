#include "tessera/generate/generator.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/model/cache.hpp"
#include "tessera/tensor/device.hpp"

namespace tessera::generate {
namespace {

using tensor::Tensor;

Tensor on(const std::vector<std::int64_t>& numbers, at::Device device) {
  return tensor::on_device(tensor::indices(numbers), device);
}

// One prompt and what came of it.
struct Row {
  std::vector<Token> tokens;
  std::size_t prompt_size = 0;
  bool goes_on = true;
};

class Rows {
 public:
  Rows(std::span<const std::vector<Token>> prompts, std::uint64_t first, const GenerateOptions& options)
      : first_(first), options_(options) {
    for (const auto& prompt : prompts) rows_.push_back({prompt, prompt.size()});
  }

  // By the logits [B,V] of what comes next.
  void extend(const Tensor& logits, const OnToken& on_token) {
    Tensor here = logits.to(at::kCPU, at::kFloat, /*non_blocking=*/false, /*copy=*/true).contiguous();
    const auto vocabulary = static_cast<std::size_t>(here.size(1));
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      Row& row = rows_[i];
      if (!row.goes_on) continue;
      const std::span scores(here.mutable_data_ptr<float>() + i * vocabulary, vocabulary);
      const double uniform = random_uniform(options_.sampling.seed, first_ + i, row.tokens.size());
      const Token token = pick(scores, row.tokens, options_.sampling, uniform);
      row.goes_on = !std::ranges::count(options_.ends, token);
      if (!row.goes_on) continue;
      row.tokens.push_back(token);
      row.goes_on = on_token(i, token) && new_tokens(row) < options_.tokens;
    }
  }
  bool any_goes_on() const {
    return std::ranges::any_of(rows_, [](const Row& row) { return row.goes_on; });
  }
  // What the next forward reads: the last token of each, and how many stand before it.
  std::vector<std::int64_t> last() const {
    std::vector<std::int64_t> out;
    for (const Row& row : rows_) out.push_back(row.tokens.back());
    return out;
  }
  std::vector<std::int64_t> lengths() const {
    std::vector<std::int64_t> out;
    for (const Row& row : rows_) out.push_back(std::ssize(row.tokens) - 1);
    return out;
  }
  std::vector<std::vector<Token>> answers() const {
    std::vector<std::vector<Token>> out;
    for (const Row& row : rows_)
      out.emplace_back(row.tokens.begin() + static_cast<std::ptrdiff_t>(row.prompt_size), row.tokens.end());
    return out;
  }

 private:
  static std::int64_t new_tokens(const Row& row) {
    return static_cast<std::int64_t>(row.tokens.size() - row.prompt_size);
  }

  std::uint64_t first_;
  const GenerateOptions& options_;
  std::vector<Row> rows_;
};

}  // namespace

Tensor side_by_side(std::span<const std::vector<Token>> tokens, at::Device device) {
  const std::size_t longest = std::ranges::max(tokens, {}, &std::vector<Token>::size).size();
  std::vector<std::int64_t> out;
  for (const auto& row : tokens) {
    out.insert(out.end(), row.begin(), row.end());
    out.resize(out.size() + longest - row.size());
  }
  return on(out, device);
}

std::vector<std::vector<Token>> continued(train::Session& session,
                                          std::span<const std::vector<Token>> prompts, std::uint64_t first,
                                          const GenerateOptions& options, const OnToken& on_token) {
  const std::int64_t sequence = session.model().sequence;
  std::vector<std::int64_t> last_rows;
  const Tensor tokens = side_by_side(prompts, session.device());
  const std::int64_t longest = tokens.size(0) / std::ssize(prompts);
  TESSERA_CHECK(options.tokens > 0 && longest + options.tokens <= sequence, longest, " tokens and ",
                options.tokens, " more in a sequence of ", sequence);
  for (const auto& prompt : prompts) {
    TESSERA_CHECK(!prompt.empty(), "an empty prompt");
    last_rows.push_back(std::ssize(last_rows) * longest + std::ssize(prompt) - 1);
  }
  const train::Session::Gathered weights(session);
  model::Cache cache(sequence);
  model::Batch batch{.samples = std::ssize(prompts), .tokens_T = tokens, .cache = &cache};
  Rows rows(prompts, first, options);
  rows.extend(session.logits(batch, on(last_rows, session.device())), on_token);
  while (rows.any_goes_on()) {
    cache.set_lengths(rows.lengths(), session.device());
    batch.tokens_T = on(rows.last(), session.device());
    rows.extend(session.logits(batch), on_token);
  }
  return rows.answers();
}

}  // namespace tessera::generate
