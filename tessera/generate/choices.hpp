// Multiple choice by log-likelihood: which of several continuations of a context a model takes for the
// likeliest. Numbers are those of EleutherAI's lm-evaluation-harness.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tessera/tokenizer/tokenizer.hpp"
#include "tessera/train/session.hpp"

namespace tessera::generate {

struct Question {
  std::string context;
  std::vector<std::string> choices;
  std::size_t answer = 0;
};

// Of JSON lines: {"context": "...", "choices": ["...", ...], "answer": 0}. Throws UserError naming the line.
std::vector<Question> read_questions(const std::string& path);

struct Answered {
  std::vector<double> log_likelihoods;  // of each choice
  std::size_t picked = 0;               // the likeliest
  std::size_t picked_by_length = 0;     // by character of the choice
  bool operator==(const Answered&) const = default;
};

struct ChoiceOptions {
  std::string delimiter = " ";                       // between a context and a choice
  std::int64_t batch = 8;                            // texts of one forward
  std::vector<tokenizer::Token> empty_context = {};  // what stands for a context that is empty
  std::function<void(std::uint64_t done, std::uint64_t all)> progress = [](auto, auto) {};
};

// All ranks of the session call it and get the same. Contexts that are too long are cut at their begin.
std::vector<Answered> answer(train::Session& session, const tokenizer::Tokenizer& tokenizer,
                             std::span<const Question> questions, const ChoiceOptions& options);

// Shares of right ones, with the standard errors of these means.
struct Accuracy {
  double share = 0, error = 0;
};
struct ChoiceScore {
  std::size_t questions = 0;
  Accuracy plain, by_length;
};
ChoiceScore score(std::span<const Question> questions, std::span<const Answered> answered);

}  // namespace tessera::generate
