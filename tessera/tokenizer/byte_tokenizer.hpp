// The tokenizer that needs no file: a byte is a token.
#pragma once

#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera::tokenizer {

std::unique_ptr<Tokenizer> byte_tokenizer();

}  // namespace tessera::tokenizer
