// How deep a TOML text nests, found before a parser builds it: tables within tables are made and freed by recursion, and a
// key of a hundred thousand parts would overflow the stack.
#pragma once

#include <optional>
#include <string_view>

namespace tessera::spec {

// The first line with a key of more parts, or brackets within more brackets, than any run file has.
std::optional<int> line_nested_too_deep(std::string_view text);

}  // namespace tessera::spec
