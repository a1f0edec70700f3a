// The characters that stand for bytes in the tokens of a byte-level model: printable ones, so that a
// vocabulary is text. Byte 0x20 is U+0120, byte 0x41 is A.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera::tokenizer {

char32_t character_of_byte(unsigned char byte);
// "Ġa" for " a".
std::string to_byte_alphabet(std::string_view bytes);
// The other way round; nothing if a character stands for no byte. The text is valid UTF-8.
std::optional<std::string> from_byte_alphabet(std::string_view text);

}  // namespace tessera::tokenizer
