// The integer types in which the .bin file of a pair may hold its tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tessera::data {

// With the numbers that an .idx file has for them.
enum class TokenType : std::uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8 };

// Throws UserError naming the file when the number means no type, or one of floating point.
TokenType parse_token_type(std::uint8_t number, const std::string& path);
std::string to_text(TokenType type);
std::size_t bytes_of(TokenType type);

// What tokens of such a vocabulary are written as: u16 below 65,500, else i32.
TokenType type_for_vocabulary(std::int64_t size);

// Between the bytes of a file and numbers. Each span of bytes is bytes_of(type) times as long as its tokens.
// Throws Bug when a token is outside of the type.
void to_tokens(TokenType type, std::span<const std::byte> bytes, std::span<std::int64_t> tokens);
void to_bytes(TokenType type, std::span<const std::int32_t> tokens, std::span<std::byte> bytes);

}  // namespace tessera::data
