// The tokenizer of a SentencePiece .model.
#pragma once

#include <string>
#include <string_view>

#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera::tokenizer {

// `content` is the file's, and `path` begins each message. Throws UserError if it is not a model.
std::unique_ptr<Tokenizer> parse_sentencepiece(std::string_view content, const std::string& path);

}  // namespace tessera::tokenizer
