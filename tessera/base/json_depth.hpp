// Returns how deeply a JSON text is nested. Asked before a text from outside is parsed: each level takes far
// more memory than its one byte of text, and what walks a parsed value takes a stack frame per level.
#pragma once

#include <string_view>

namespace tessera {

// Of {"a":[1]} it is 2. Of a text that is no JSON: of all that a parser would read before it notices, or
// more.
int json_depth(std::string_view text);

}  // namespace tessera
