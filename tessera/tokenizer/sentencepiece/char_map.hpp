// A precompiled charsmap: texts and what they become, as a double array of Darts-clone. Its bytes come from a
// file that anyone may have made, so all that they point to is checked when they are read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::tokenizer::sentencepiece {

class CharMap {
 public:
  // Maps nothing if `blob` is empty. Throws UserError, which begins with `where`, if it points outside of
  // itself.
  CharMap(std::string_view blob, const std::string& where);

  struct Rule {
    std::size_t bytes = 0;  // that it replaces, or 0 without a rule
    std::string_view text;  // that it replaces them by
  };
  // The rule for the longest beginning of the text.
  Rule longest(std::string_view text) const;

 private:
  // Whether every unit leads to units that are there, and every leaf to a text.
  bool points_inside() const;

  std::vector<std::uint32_t> units_;
  std::string texts_;  // each ends with a zero byte
};

}  // namespace tessera::tokenizer::sentencepiece
