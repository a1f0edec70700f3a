// Changes a text as a model's rules say: characters by its charsmap, spaces to marks.
#pragma once

#include <string>
#include <string_view>

#include "tessera/tokenizer/sentencepiece/char_map.hpp"
#include "tessera/tokenizer/sentencepiece/model_file.hpp"
#include "tessera/tokenizer/sentencepiece/prefix_trie.hpp"

namespace tessera::tokenizer::sentencepiece {

class TextChanger {
 public:
  // Words of `kept` stay as they are; it is null or outlives this. Throws UserError, which begins with
  // `where`, if the charsmap is broken.
  TextChanger(TextRules rules, const PrefixTrie* kept, const std::string& where);

  // Bytes that are not UTF-8 become U+FFFD. Throws UserError if the rules grow the text without bound.
  std::string changed(std::string_view text) const;

 private:
  CharMap::Rule next(std::string_view text) const;

  TextRules rules_;
  CharMap char_map_;
  const PrefixTrie* kept_;
};

}  // namespace tessera::tokenizer::sentencepiece
