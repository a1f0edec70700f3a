// A precompiled charsmap: texts and what they become, as a double array of Darts-clone. Its bytes come from a
// file that anyone may have made, so every step stays within them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::tokenizer::sentencepiece {

class CharMap {
 public:
  // Maps nothing if `blob` is empty. Throws UserError, which begins with `where`, if its sizes don't add up.
  CharMap(std::string_view blob, const std::string& where);

  struct Rule {
    std::size_t bytes = 0;  // that it replaces; 0: there is no rule
    std::string_view text;  // that it replaces them by
  };
  // The rule for the longest beginning of the text.
  Rule longest(std::string_view text) const;

 private:
  std::vector<std::uint32_t> units_;
  std::string texts_;  // each ends with a zero byte
};

}  // namespace tessera::tokenizer::sentencepiece
