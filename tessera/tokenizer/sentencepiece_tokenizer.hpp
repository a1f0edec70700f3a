// The tokenizer of a SentencePiece .model, through the library of SentencePiece.
#pragma once

#include <string>
#include <string_view>

#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera::tokenizer {

// `content` is the file's. Throws UserError if the library refuses it.
std::unique_ptr<Tokenizer> parse_sentencepiece(std::string_view content, const std::string& path);

}  // namespace tessera::tokenizer
