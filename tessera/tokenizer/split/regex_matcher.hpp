// Interprets a regular expression by backtracking.
#pragma once

#include <memory>
#include <string>

#include "tessera/tokenizer/split/matcher.hpp"

namespace tessera::tokenizer {

// Throws UserError if the pattern can't be read or can match the empty text. The matcher itself throws one if
// a text makes it try more than a million ways to match at one place.
std::unique_ptr<Matcher> regex_matcher(const std::string& pattern);

}  // namespace tessera::tokenizer
