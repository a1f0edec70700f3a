// Replaces what a matcher finds, for normalizers and decoders.
#pragma once

#include <string>
#include <string_view>

#include "tessera/tokenizer/split/matcher.hpp"
#include "tessera/tokenizer/unicode/growth.hpp"

namespace tessera::tokenizer {

// The text with `content` in place of every match.
std::string replaced(std::string_view text, const Matcher& matcher, std::string_view content,
                     const GrowthLimit& limit);

}  // namespace tessera::tokenizer
