#include "tessera/tokenizer/pipeline/byte_alphabet.hpp"

#include <array>

#include "tessera/tokenizer/unicode/utf8.hpp"

namespace tessera::tokenizer {

namespace {

// Bytes that print in Latin-1 stand for themselves, the others in order from U+0100 on.
constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct ByteAlphabet {
  std::array<char32_t, 256> character{};
  std::array<int, 0x144> byte{};  // by character; -1: none
};

constexpr ByteAlphabet made_alphabet() {
  ByteAlphabet out;
  out.byte.fill(-1);
  char32_t other = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const auto index = static_cast<std::size_t>(byte);
    out.character[index] = stands_for_itself(byte) ? static_cast<char32_t>(byte) : other++;
    out.byte[out.character[index]] = byte;
  }
  return out;
}

constexpr ByteAlphabet kAlphabet = made_alphabet();

}  // namespace

char32_t character_of_byte(unsigned char byte) { return kAlphabet.character[byte]; }

std::string to_byte_alphabet(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) append_utf8(character_of_byte(static_cast<unsigned char>(byte)), out);
  return out;
}

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto [code, bytes] = code_point_at(text, at);
    if (code >= kAlphabet.byte.size() || kAlphabet.byte[code] < 0) return std::nullopt;
    out.push_back(static_cast<char>(kAlphabet.byte[code]));
    at += bytes;
  }
  return out;
}

}  // namespace tessera::tokenizer
