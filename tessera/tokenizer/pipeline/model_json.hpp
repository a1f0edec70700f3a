// Reads the model of a tokenizer.json: byte pair encoding.
#pragma once

#include <string>
#include <unordered_map>

#include "tessera/tokenizer/bpe/bpe.hpp"
#include "tessera/tokenizer/pipeline/component.hpp"

namespace tessera::tokenizer {

inline constexpr std::int64_t kMostTokens = 1 << 24;

struct ModelParts {
  BpeParts bpe;
  Vocabulary vocabulary;  // as the file has it
};

// `by_bytes`: its tokens are texts of the byte alphabet. Throws UserError naming what is not known.
ModelParts read_model(const Component& component, bool by_bytes);

}  // namespace tessera::tokenizer
