#include "tessera/generate/choices.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/base/json_depth.hpp"
#include "tessera/generate/generator.hpp"
#include "tessera/tensor/device.hpp"

namespace tessera::generate {
namespace {

using tensor::Tensor;
using tokenizer::Encoder;
using tokenizer::Token;

// A context with one of its choices. The last `counted` tokens are the choice.
struct Text {
  std::size_t question = 0;
  std::vector<Token> tokens;
  std::int64_t counted = 0;
};

std::vector<Token> encoded(Encoder& encoder, const std::string& text) {
  std::vector<Token> out;
  encoder.encode(text, out);
  return out;
}

// Spaces at the end of the context belong to the choice: most tokenizers put them before a word. The choice
// is what comes after as many tokens as the context has alone.
Text text_of(Encoder& encoder, std::size_t index, const Question& question, const std::string& choice,
             const ChoiceOptions& options) {
  std::string context = question.context, rest = options.delimiter + choice;
  Text out{.question = index};
  if (context.empty()) {
    if (options.empty_context.empty())
      throw UserError(cat("question ", index + 1,
                          " has an empty context, and the tokenizer has no token to begin a text with"));
    out.tokens = options.empty_context;
    const auto tokens = encoded(encoder, rest);
    out.tokens.insert(out.tokens.end(), tokens.begin(), tokens.end());
    out.counted = std::ssize(tokens);
    return out;
  }
  const std::size_t end = context.find_last_not_of(" \t\n\v\f\r") + 1;
  rest = context.substr(end) + rest;
  context.resize(end);
  out.tokens = encoded(encoder, context + rest);
  out.counted = std::ssize(out.tokens) - std::ssize(encoded(encoder, context));
  return out;
}

double num_characters(const std::string& text) {
  return static_cast<double>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::size_t largest(std::span<const double> numbers) {
  return static_cast<std::size_t>(std::ranges::max_element(numbers) - numbers.begin());
}

// Of the counted tokens of each text, added up.
std::vector<double> log_likelihoods(train::Session& session, std::span<const Text> texts) {
  std::vector<std::vector<Token>> read;
  std::vector<std::int64_t> rows, targets;
  std::size_t longest = 0;
  for (const Text& text : texts) longest = std::max(longest, text.tokens.size() - 1);
  for (const Text& text : texts) {
    const auto begin = static_cast<std::int64_t>(read.size() * longest);
    const auto size = std::ssize(text.tokens);
    read.emplace_back(text.tokens.begin(), text.tokens.end() - 1);
    for (std::int64_t i = size - text.counted; i < size; ++i) {
      rows.push_back(begin + i - 1);
      targets.push_back(text.tokens[static_cast<std::size_t>(i)]);
    }
  }
  const auto device = session.device();
  const model::Batch batch{.samples = std::ssize(texts), .tokens_T = side_by_side(read, device)};
  const Tensor logits = session.logits(batch, tensor::on_device(tensor::indices(rows), device));
  const Tensor found = logits.to(tensor::wide(logits.scalar_type()))
                           .log_softmax(1)
                           .gather(1, tensor::on_device(tensor::indices(targets), device).unsqueeze(1))
                           .to(at::kCPU, at::kDouble)
                           .contiguous();
  std::vector<double> out;
  const double* at = found.const_data_ptr<double>();
  for (const Text& text : texts) {
    out.push_back(std::accumulate(at, at + text.counted, 0.0));
    at += text.counted;
  }
  return out;
}

Question question_of(const nlohmann::json& line) {
  const auto refuse = [](const char* why) { throw UserError(why); };
  if (!line.is_object()) refuse("is no JSON object");
  if (!line.contains("context") || !line["context"].is_string()) refuse("has no text \"context\"");
  if (!line.contains("choices") || !line["choices"].is_array() || line["choices"].size() < 2)
    refuse("has no list \"choices\" of two or more");
  Question out{.context = line["context"]};
  for (const auto& choice : line["choices"]) {
    if (!choice.is_string() || choice.get<std::string>().empty()) refuse("has a choice that is no text");
    out.choices.push_back(choice);
  }
  if (!line.contains("answer") || !line["answer"].is_number_unsigned() ||
      line["answer"].get<std::size_t>() >= out.choices.size())
    refuse("has no \"answer\" that counts its choices from 0");
  out.answer = line["answer"];
  return out;
}

Accuracy accuracy_of(std::size_t right, std::size_t all) {
  const double n = static_cast<double>(all), share = static_cast<double>(right) / n;
  return {share, all > 1 ? std::sqrt(share * (1 - share) / (n - 1)) : 0};
}

}  // namespace

std::vector<Question> read_questions(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw UserError(cat(path, ": cannot be read"));
  std::vector<Question> out;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    try {
      if (json_depth(line) > 8) throw UserError("is nested too deeply");
      out.push_back(question_of(nlohmann::json::parse(line)));
    } catch (const std::exception& error) {
      throw UserError(cat(path, ": line ", number, ": ", error.what()));
    }
  }
  if (out.empty()) throw UserError(cat(path, ": has no questions"));
  return out;
}

std::vector<Answered> answer(train::Session& session, const tokenizer::Tokenizer& tokenizer,
                             std::span<const Question> questions, const ChoiceOptions& options) {
  const auto encoder = tokenizer.encoder();
  const auto most = static_cast<std::size_t>(session.model().sequence) + 1;
  std::vector<Text> texts;
  for (std::size_t i = 0; i < questions.size(); ++i)
    for (const std::string& choice : questions[i].choices) {
      Text text = text_of(*encoder, i, questions[i], choice, options);
      if (text.tokens.size() > most)
        text.tokens.erase(text.tokens.begin(), text.tokens.end() - static_cast<std::ptrdiff_t>(most));
      if (text.counted >= std::ssize(text.tokens))
        throw UserError(cat("question ", i + 1, ": a choice of ", text.counted,
                            " tokens leaves nothing of its context in a sequence of ", most - 1));
      texts.push_back(std::move(text));
    }
  // Texts of about one length go together: little is filled up.
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return texts[i].tokens.size(); });
  std::vector<double> found(texts.size());
  const train::Session::Gathered weights(session);
  const auto batch = static_cast<std::size_t>(options.batch);
  for (std::size_t first = 0; first < order.size(); first += batch) {
    const auto some = std::span(order).subspan(first, std::min(batch, order.size() - first));
    std::vector<Text> together;
    for (const std::size_t i : some) together.push_back(texts[i]);
    const auto sums = log_likelihoods(session, together);
    for (std::size_t i = 0; i < some.size(); ++i) found[some[i]] = sums[i];
    options.progress(first + some.size(), order.size());
  }
  std::vector<Answered> out(questions.size());
  for (std::size_t i = 0; i < texts.size(); ++i) out[texts[i].question].log_likelihoods.push_back(found[i]);
  for (std::size_t i = 0; i < questions.size(); ++i) {
    std::vector<double> by_length = out[i].log_likelihoods;
    for (std::size_t c = 0; c < by_length.size(); ++c)
      by_length[c] /= num_characters(questions[i].choices[c]);
    out[i].picked = largest(out[i].log_likelihoods);
    out[i].picked_by_length = largest(by_length);
  }
  return out;
}

ChoiceScore score(std::span<const Question> questions, std::span<const Answered> answered) {
  std::size_t right = 0, right_by_length = 0;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    right += answered[i].picked == questions[i].answer;
    right_by_length += answered[i].picked_by_length == questions[i].answer;
  }
  return {questions.size(), accuracy_of(right, questions.size()),
          accuracy_of(right_by_length, questions.size())};
}

}  // namespace tessera::generate
