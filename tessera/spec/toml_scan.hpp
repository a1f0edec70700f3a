// What a TOML text must not have when the parser sees it. Tables within tables are made and freed by
// recursion, so a key of a hundred thousand parts would overflow the stack; and what the parser does with
// other letters than ASCII's outside of quotes, where TOML has none, is undefined.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera::spec {

struct ScanProblem {
  int line = 1;
  std::string text;
};

// The first line of a text that the parser should not see, and why.
std::optional<ScanProblem> scan_problem(std::string_view text);

}  // namespace tessera::spec
