// Whether tokens that are generated with a cache, side by side or by several ranks, are those of the whole
// text. Costs about 2 s.
#include "tessera/generate/generator.hpp"

#include <gtest/gtest.h>

#include "tessera/base/random.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/train/testing/small_runs.hpp"

namespace tessera::generate {
namespace {

using Tokens = std::vector<Token>;

spec::Run run_of(spec::Family family) {
  spec::Run run = family == spec::Family::gpt2 ? train::small_gpt2_run(1) : train::small_run(1);
  run.model.family = family;
  run.model.vocab = 60;
  run.model.sequence = 48;
  run.model.init_std = 0.3;  // or all tokens would be about as likely
  run.layout.sequence_parallel = false;
  return run;
}

std::vector<Tokens> prompts() {
  std::vector<Tokens> out;
  for (const std::size_t length : {7, 1, 12, 3}) {
    Tokens& prompt = out.emplace_back();
    for (std::size_t i = 0; i < length; ++i)
      prompt.push_back(static_cast<Token>(random_bits(5, out.size(), i) % 60));
  }
  return out;
}

// The likeliest tokens, from the logits of the whole text each time.
Tokens without_a_cache(train::Session& session, Tokens text, std::size_t count) {
  const std::size_t begin = text.size();
  while (text.size() < begin + count) {
    const model::Batch batch{.samples = 1, .tokens_T = side_by_side(std::span(&text, 1), at::kCPU)};
    const auto logits = session.logits(batch);
    text.push_back(static_cast<Token>(logits.select(0, logits.size(0) - 1).argmax().item<std::int64_t>()));
  }
  return {text.begin() + static_cast<std::ptrdiff_t>(begin), text.end()};
}

bool always(std::size_t, Token) { return true; }

class Generated : public testing::TestWithParam<std::pair<spec::Family, std::int64_t>> {};  // and its window

TEST_P(Generated, IsWhatTheWholeTextGivesAlsoSideBySideAndOnSeveralRanks) {
  constexpr std::int64_t kTokens = 20;
  std::vector<Tokens> expected;
  spec::Run run = run_of(GetParam().first);
  run.model.sliding_window = GetParam().second;
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    train::Session session(train::session_plan(run), alone, train::random_source(run.model));
    for (const Tokens& prompt : prompts()) expected.push_back(without_a_cache(session, prompt, kTokens));
    EXPECT_EQ(continued(session, prompts(), 0, {.tokens = kTokens}, always), expected);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(continued(session, std::vector<Tokens>{prompts()[i]}, i, {.tokens = kTokens}, always).front(),
                expected[i]);
  });
  EXPECT_NE(expected[0], expected[1]) << "any text would do";
  run.layout.tp = 2;
  collective::run_ranks(2, [&](const collective::Communicator& me) {
    train::Session session(train::session_plan(run), me, train::random_source(run.model));
    EXPECT_EQ(continued(session, prompts(), 0, {.tokens = kTokens}, always), expected);
  });
}

INSTANTIATE_TEST_SUITE_P(Families, Generated,
                         testing::Values(std::pair(spec::Family::llama, 0), std::pair(spec::Family::llama, 6),
                                         std::pair(spec::Family::gpt2, 0),
                                         std::pair(spec::Family::olmo2, 0)));

TEST(Generator, DrawsTheSameForAPromptAloneAndAmongOthers) {
  const spec::Run run = run_of(spec::Family::llama);
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    train::Session session(train::session_plan(run), alone, train::random_source(run.model));
    const GenerateOptions options{.sampling = {.temperature = 1, .top_p = 0.9}, .tokens = 16};
    const auto together = continued(session, prompts(), 0, options, always);
    for (std::size_t i = 0; i < together.size(); ++i)
      EXPECT_EQ(continued(session, std::vector<Tokens>{prompts()[i]}, i, options, always).front(),
                together[i]);
    GenerateOptions other = options;
    other.sampling.seed = 2;
    EXPECT_NE(continued(session, prompts(), 0, other, always), together);
  });
}

TEST(Generator, EndsEachTextByItself) {
  const spec::Run run = run_of(spec::Family::llama);
  collective::run_ranks(1, [&](const collective::Communicator& alone) {
    train::Session session(train::session_plan(run), alone, train::random_source(run.model));
    const auto all = continued(session, prompts(), 0, {.tokens = 12}, always);
    const Token end = all[0][4];
    const auto ended = continued(session, prompts(), 0, {.tokens = 12, .ends = {end}}, always);
    for (std::size_t i = 0; i < all.size(); ++i)
      EXPECT_EQ(ended[i], Tokens(all[i].begin(), std::ranges::find(all[i], end)));
    const auto told =
        continued(session, prompts(), 0, {.tokens = 12},
                  [&, count = 0](std::size_t i, Token) mutable { return i != 2 || ++count < 3; });
    EXPECT_EQ(told[2], Tokens(all[2].begin(), all[2].begin() + 3));
    EXPECT_EQ(told[1], all[1]);
  });
}

}  // namespace
}  // namespace tessera::generate
