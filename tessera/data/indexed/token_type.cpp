#include "tessera/data/indexed/token_type.hpp"

#include <bit>
#include <cstring>
#include <limits>

#include "tessera/base/error.hpp"

namespace tessera::data {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

namespace {

// Calls act with a value of the type.
template <typename Act>
auto with_type(TokenType type, const Act& act) {
  switch (type) {
    case TokenType::u8:
      return act(std::uint8_t{});
    case TokenType::i8:
      return act(std::int8_t{});
    case TokenType::i16:
      return act(std::int16_t{});
    case TokenType::i32:
      return act(std::int32_t{});
    case TokenType::i64:
      return act(std::int64_t{});
    case TokenType::u16:
      return act(std::uint16_t{});
  }
  throw_bug(__FILE__, __LINE__, "type", "unknown type of tokens");
}

}  // namespace

TokenType parse_token_type(std::uint8_t number, const std::string& path) {
  switch (number) {
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
    case 8:
      return static_cast<TokenType>(number);
    case 6:
    case 7:
      throw UserError(cat("'", path, "' holds numbers of floating point, not tokens"));
    default:
      throw UserError(
          cat("'", path, "' has tokens of type ", number, "; known are u8, i8, i16, i32, i64 and u16"));
  }
}

std::string to_text(TokenType type) {
  return with_type(type, [](auto value) {
    return cat(std::numeric_limits<decltype(value)>::is_signed ? "i" : "u", 8 * sizeof value);
  });
}

std::size_t bytes_of(TokenType type) {
  return with_type(type, [](auto value) { return sizeof value; });
}

TokenType type_for_vocabulary(std::int64_t size) { return size < 65500 ? TokenType::u16 : TokenType::i32; }

void to_tokens(TokenType type, std::span<const std::byte> bytes, std::span<std::int64_t> tokens) {
  with_type(type, [&](auto value) {
    TESSERA_CHECK(bytes.size() == tokens.size() * sizeof value, bytes.size(), " bytes for ", tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
      tokens[i] = value;
    }
  });
}

void to_bytes(TokenType type, std::span<const std::int32_t> tokens, std::span<std::byte> bytes) {
  with_type(type, [&](auto value) {
    TESSERA_CHECK(bytes.size() == tokens.size() * sizeof value, bytes.size(), " bytes for ", tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      value = static_cast<decltype(value)>(tokens[i]);
      TESSERA_CHECK(static_cast<std::int64_t>(value) == tokens[i] && tokens[i] >= 0, "token ", tokens[i],
                    " as ", to_text(type));
      std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    }
  });
}

}  // namespace tessera::data
