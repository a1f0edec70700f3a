// Multiple choice on a small model. Costs about 0.5 s.
#include "tessera/generate/choices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/error.hpp"
#include "tessera/base/testing/test_folder.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/generate/generator.hpp"
#include "tessera/train/testing/small_runs.hpp"

namespace tessera::generate {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Questions, AreReadLineByLineAndRefusedByLine) {
  const TestFolder folder;
  const std::string good = R"({"context": "a", "choices": ["b", "c"], "answer": 1})";
  const auto read = read_questions(folder.write("good", good + "\n\n" + good + "\n"));
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[1].choices, (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(read[1].answer, 1u);
  for (const auto& [line, why] : std::vector<std::pair<std::string, std::string>>{
           {"[1]", "no JSON object"},
           {"{", "line 2"},
           {R"({"choices": ["b", "c"], "answer": 1})", "context"},
           {R"({"context": "a", "choices": ["b"], "answer": 0})", "choices"},
           {R"({"context": "a", "choices": ["b", ""], "answer": 0})", "choice"},
           {R"({"context": "a", "choices": ["b", "c"], "answer": 2})", "answer"},
           {R"({"context": "a", "choices": ["b", "c"], "answer": -1})", "answer"},
           {std::string(1000, '['), "deeply"}})
    EXPECT_THAT([&] { read_questions(folder.write("bad", good + "\n" + line + "\n")); },
                ThrowsMessage<UserError>(testing::AllOf(HasSubstr("line 2: "), HasSubstr(why))));
  EXPECT_THAT([&] { read_questions(folder.write("empty", "\n")); },
              ThrowsMessage<UserError>(HasSubstr("has no questions")));
}

// Bytes as tokens: the log-likelihood of a choice is the sum over its bytes.
TEST(Choices, AreJudgedByTheSumOverTheirTokens) {
  spec::Run run = train::small_run(1);
  run.model.vocab = 256;
  run.model.sequence = 24;
  run.model.init_std = 0.3;
  run.layout.sequence_parallel = false;
  const auto tokenizer = tokenizer::open_tokenizer("bytes");
  const std::vector<Question> questions = {{"one two  ", {"three", "4", "f\u00e9"}, 0},
                                           {std::string(40, 'x'), {"yes", "no"}, 1},
                                           {"", {"a", "b"}, 1}};
  std::vector<Answered> alone;
  for (const std::int64_t tp : {1, 2}) {
    run.layout.tp = tp;
    collective::run_ranks(static_cast<int>(tp), [&](const collective::Communicator& me) {
      train::Session session(train::session_plan(run), me, train::random_source(run.model));
      const auto found = answer(session, *tokenizer, questions, {.batch = 3, .empty_context = {'\n'}});
      if (tp == 2) {
        for (std::size_t q = 0; q < found.size(); ++q)
          for (std::size_t c = 0; c < found[q].log_likelihoods.size(); ++c)
            EXPECT_NEAR(found[q].log_likelihoods[c], alone[q].log_likelihoods[c], 1e-4);
        return;
      }
      alone = found;
      const auto likelihood = [&](std::string text, std::size_t counted) {
        if (text.size() > 25) text = text.substr(text.size() - 25);
        const std::vector<Token> tokens(text.begin(), text.end() - 1);
        std::vector<Token> bytes;
        for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
        const std::vector<Token> read(bytes.begin(), bytes.end() - 1);
        const model::Batch batch{.samples = 1, .tokens_T = side_by_side(std::span(&read, 1), at::kCPU)};
        const auto scores = session.logits(batch).to(at::kDouble).log_softmax(1);
        double sum = 0;
        for (std::size_t i = bytes.size() - counted; i < bytes.size(); ++i)
          sum += scores.select(0, static_cast<std::int64_t>(i) - 1).select(0, bytes[i]).item<double>();
        return sum;
      };
      for (std::size_t q = 0; q < questions.size(); ++q)
        for (std::size_t c = 0; c < questions[q].choices.size(); ++c) {
          const std::string& choice = questions[q].choices[c];
          const std::string context = q == 2 ? "\n" : questions[q].context;
          // Spaces at the end of a context belong to the choice.
          const std::size_t counted = choice.size() + 1 + (q == 0 ? 2 : 0);
          EXPECT_NEAR(found[q].log_likelihoods[c], likelihood(context + " " + choice, counted), 1e-4)
              << q << ", " << c;
        }
      EXPECT_THROW(answer(session, *tokenizer, questions, {}), UserError) << "an empty context";
    });
  }
  const ChoiceScore score = generate::score(questions, alone);
  EXPECT_EQ(score.questions, 3u);
}

TEST(Choices, AreScoredWithTheErrorOfTheMean) {
  const std::vector<Question> questions(4, {"", {"a", "b"}, 1});
  std::vector<Answered> answered(4, {.picked = 1, .picked_by_length = 1});
  answered[2].picked = 0;
  const ChoiceScore found = score(questions, answered);
  EXPECT_EQ(found.plain.share, 0.75);
  EXPECT_NEAR(found.plain.error, std::sqrt(0.75 * 0.25 / 3), 1e-12);
  EXPECT_EQ(found.by_length.share, 1);
  EXPECT_EQ(found.by_length.error, 0);
}

}  // namespace
}  // namespace tessera::generate
