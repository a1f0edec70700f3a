// The normal forms of Unicode, with the tables of the normalizers in the pip package `tokenizers`: an older
// version than that of its regular expressions.
#pragma once

#include <string>
#include <string_view>

namespace tessera::tokenizer {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// Of valid UTF-8.
std::string normalized(std::string_view text, NormalForm form);

}  // namespace tessera::tokenizer
