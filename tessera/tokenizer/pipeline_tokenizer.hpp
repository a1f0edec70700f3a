// A tokenizer of parts: added tokens, normalizer, pre-tokenizers, byte pair encoding, decoder.
#pragma once

#include "tessera/tokenizer/pipeline/added_tokens.hpp"
#include "tessera/tokenizer/pipeline/decode_steps.hpp"
#include "tessera/tokenizer/pipeline/model_json.hpp"
#include "tessera/tokenizer/pipeline/normalizer.hpp"
#include "tessera/tokenizer/pipeline/pre_tokenizer.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera::tokenizer {

struct PipelineParts {
  std::string where;                       // for messages
  std::unique_ptr<Normalizer> normalizer;  // may be absent
  PreTokenizers pre_tokenizers;
  ModelParts model;
  std::vector<AddedToken> added;
  DecodePlan decode_plan;
  std::vector<Token> prefix, suffix;
};

// Throws UserError if two tokens have one number.
std::unique_ptr<Tokenizer> make_pipeline_tokenizer(PipelineParts parts);

}  // namespace tessera::tokenizer
