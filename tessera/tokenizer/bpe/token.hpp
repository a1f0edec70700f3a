// The number of a token in its vocabulary.
#pragma once

#include <cstdint>

namespace tessera::tokenizer {

using Token = std::int32_t;
inline constexpr Token kNoToken = -1;

}  // namespace tessera::tokenizer
