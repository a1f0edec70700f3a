// The tokenizer that a tokenizer.json of Hugging Face describes.
#pragma once

#include <string>
#include <string_view>

#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera::tokenizer {

// Tokens are those of the pip package `tokenizers` for the same file and text, with add_special_tokens=False.
// `path` is for messages. Throws UserError naming what is not known.
std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view text, const std::string& path);

}  // namespace tessera::tokenizer
