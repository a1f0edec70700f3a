// Continues prompts token by token, with the units that a model is trained with and a cache of keys and
// values.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tessera/generate/sampling.hpp"
#include "tessera/train/session.hpp"

namespace tessera::generate {

struct GenerateOptions {
  Sampling sampling;
  std::int64_t tokens = 128;  // at most so many
  std::vector<Token> ends;    // tokens that end an answer; they are no part of it
};

// The prompt with this index goes on by this token. Returns whether it goes on after it.
using OnToken = std::function<bool(std::size_t prompt, Token token)>;

// The tokens after each prompt. Prompts are continued together, and each as it would be alone; those of one
// sampling seed differ by `first`, the number of the first. All ranks of the session call it and get the
// same. Prompt and answer must fit the session's sequence.
std::vector<std::vector<Token>> continued(train::Session& session,
                                          std::span<const std::vector<Token>> prompts, std::uint64_t first,
                                          const GenerateOptions& options, const OnToken& on_token);

// The tokens side by side, short ones filled up: rows of the longest.
tensor::Tensor side_by_side(std::span<const std::vector<Token>> tokens, at::Device device);

}  // namespace tessera::generate
